-- Lock the callbacks and the unique claims of jobs that are to go; a step of awa.prune_parked.
--   p_ids, p_keys  the jobs, and the unique key that each holds, or null; same order; null for none
-- Answers the ids of those of whose nothing is locked by somebody else. Waits for nobody, so that one job whose key is in use
-- stops no other.
-- Index: callbacks_job, and the primary key of the claims. Locks the callbacks, then the claims in key order.
create or replace function awa.lock_belongings(p_ids bigint[], p_keys bytea[]) returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
declare
    callbacks uuid[];
    keys      bytea[];
begin
    select array_agg(locked.id)
      into callbacks
      from (select callback.id from awa.callbacks as callback where callback.job_id = any (p_ids) for update skip locked) as locked;
    select array_agg(locked.unique_key)
      into keys
      from (select wanted.key from unnest(p_keys) as wanted (key) where wanted.key is not null order by wanted.key) as wanted
     cross join lateral (
           select claim.unique_key from awa.job_unique_claims as claim where claim.unique_key = wanted.key for update skip locked
     ) as locked;
    return array(
        select job.id
          from unnest(p_ids, p_keys) as job (id, key)
         where not exists (select
                             from awa.callbacks as callback
                            where callback.job_id = job.id
                              and callback.id not in (select unnest(callbacks)))
           and not exists (select
                             from awa.job_unique_claims as claim
                            where claim.unique_key = job.key
                              and claim.job_id = job.id
                              and claim.unique_key not in (select unnest(keys))));
end
$$;
