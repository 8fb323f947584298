-- List what still runs of one claimed batch in the other part of active_claims. A step of awa.empty_claims.
--   p_batch  the batch as it is listed
-- Worker and time of the claim stay; the hint says where most of it runs now. Answers 1, or 0 when all of it has ended.
-- Index: primary keys of the segments. Locks nothing but what an insert does.
create or replace function awa.copy_claim(p_batch awa.active_claims) returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    running record;
begin
    select mode() within group (order by still.segment) as segment,
           array_agg(still.id) as ids,
           array_agg(still.run_lease) as leases
      into running
      from awa.still_running(p_batch.segment, p_batch.job_ids, p_batch.run_leases) as still;
    if running.ids is null then
        return 0;
    end if;
    insert into awa.active_claims (part, segment, worker, claimed_at, deadline_at, job_ids, run_leases)
    values (1 - p_batch.part, running.segment, p_batch.worker, p_batch.claimed_at, p_batch.deadline_at,
            running.ids, running.leases);
    return 1;
end
$$;
