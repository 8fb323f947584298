-- Hand back those of these silent attempts that no row of active_claims names. A step of awa.audit.
--   p_segment         where they are
--   p_ids, p_leases   job ids and their run_leases, same order; null for none
--   p_silent_since    since when they must have been silent, judged again on the rows as locked
-- Answers the ids of those that were not listed. active_claims is read through, which is why only suspects get here.
-- Locks as awa.lock_overdue and awa.hand_back_each do.
create or replace function awa.rescue_unlisted(
    p_segment smallint,
    p_ids bigint[],
    p_leases bigint[],
    p_silent_since timestamptz
)
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    ids    bigint[];
    leases bigint[];
    late   record;
begin
    select array_agg(suspect.id), array_agg(suspect.run_lease)
      into ids, leases
      from unnest(p_ids, p_leases) as suspect (id, run_lease)
     where not exists (
           select 1
             from awa.active_claims as claim
             cross join lateral unnest(claim.job_ids, claim.run_leases) as listed (id, run_lease)
            where listed.id = suspect.id
              and listed.run_lease = suspect.run_lease);
    if ids is null then
        return '{}';
    end if;
    select array_agg(overdue.segment) as segments, array_agg(overdue.id) as ids, array_agg(overdue.run_lease) as leases,
           array_agg(overdue.unique_key) as keys, array_agg(overdue.takes_key) as alone,
           array_agg(overdue.error || ', listed nowhere') as errors
      into late
      from awa.lock_overdue(array_fill(p_segment, array[cardinality(ids)]), ids, leases, false, p_silent_since,
                            '-infinity') as overdue
     where not overdue.is_ahead;
    if late.ids is null then
        return '{}';
    end if;
    perform awa.hand_back_each(late.segments, late.ids, late.leases, late.keys, late.alone, late.errors);
    return late.ids;
end
$$;
