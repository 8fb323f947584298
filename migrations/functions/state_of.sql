-- The state of a job as it was last committed, or null where there is none of this id.
-- Index: the primary keys. Locks nothing.
create or replace function awa.state_of(p_id bigint) returns awa.job_state
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
declare
    found_state awa.job_state;
begin
    select job.state into found_state
      from (select hot.state from awa.jobs_hot as hot where hot.id = p_id
            union all
            select waiting.state from awa.scheduled_jobs as waiting where waiting.id = p_id) as job;
    return found_state;
end
$$;
