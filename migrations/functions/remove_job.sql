-- Delete a job that the caller has locked, and its callbacks. Its unique key is free again: a trigger sees to that. The worker of
-- one that runs is told.
--   p_job  the row as awa.lock_jobs answered it
-- Index: the primary key of its table, callbacks_job. Locks its callbacks, then the unique claim of the job, if it has one.
create or replace function awa.remove_job(p_job awa.jobs_hot) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
begin
    delete from awa.callbacks as callback where callback.job_id = p_job.id;
    if p_job.segment is null then
        delete from awa.scheduled_jobs as job where job.id = p_job.id;
    else
        delete from awa.jobs_hot as job where job.segment = p_job.segment and job.id = p_job.id;
    end if;
    if p_job.state = 'running' then
        perform awa.tell_worker(p_job.attempted_by, p_job.id, p_job.run_lease, 'deleted');
    end if;
end
$$;
