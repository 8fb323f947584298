-- Open a callback for a running attempt, so that the outside can answer it from now on.
--   p_id, p_lease  the job and its run_lease
--   p_seconds      how long a job that waits for it does so, counted from now; at most a thousand years
-- Answers its id, or null where the lease is lost. Asked again after an unknown commit it opens another one, which does no harm.
-- An attempt may have attempt_max of them: 54000 beyond that. Of those of earlier attempts the newest kept_max stay, and that
-- whose payload the job was resumed with.
-- Index: the primary keys of the job tables, callbacks_job. Locks the row of the job for a moment.
create or replace function awa.open_callback(p_id bigint, p_lease bigint, p_seconds double precision) returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
    set lock_timeout = '1s'
as $$
declare
    attempt_max constant integer := 32;
    kept_max    constant integer := 32;
    job         awa.jobs_hot;
    opened      uuid;
begin
    select locked.* into job from awa.lock_jobs(array[p_id]) as locked;
    if job.id is null or job.run_lease <> p_lease or job.state <> 'running' then
        return null;
    end if;
    if (select count(*)
          from awa.callbacks as own
         where own.job_id = p_id
           and own.run_lease = p_lease) >= attempt_max
    then
        raise exception 'attempt % of job % has opened % callbacks; one attempt may open no more', p_lease, p_id, attempt_max
            using errcode = 'program_limit_exceeded', schema = 'awa', table = 'callbacks';
    end if;
    delete from awa.callbacks as past
     where past.id = any (array(
           select older.id
             from awa.callbacks as older
            where older.job_id = p_id
              and older.run_lease < p_lease
              and older.id is distinct from (
                  select resumed.id
                    from awa.callbacks as resumed
                   where resumed.job_id = p_id
                     and resumed.answer = 'resume'
                   order by resumed.run_lease desc, resumed.answered_at desc
                   limit 1)
            order by older.run_lease desc, older.created_at desc, older.id
           offset kept_max));
    insert into awa.callbacks (job_id, run_lease, due_at)
    values (p_id, p_lease, now() + make_interval(secs => least(greatest(p_seconds, 0), 31622400000)))
    returning id into opened;
    return opened;
end
$$;
