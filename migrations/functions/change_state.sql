-- Bring a job that the caller has locked into the state that an UPDATE of the view asks for.
--   p_job    the row as awa.lock_jobs answered it; p_state: cancelled or available
-- Answers applied, duplicate with the holder, or busy. Raises 55000 where the state of the job does not allow it.
-- Index and locks: as awa.place_job.
create or replace function awa.change_state(p_job awa.jobs_hot, p_state awa.job_state, out outcome text, out holder bigint)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    action constant text := case when p_state = 'cancelled' then 'cancel'
                                 when p_job.state in ('scheduled', 'retryable') then 'run_now'
                                 else 'retry' end;
begin
    if awa.judge(action, p_job.state) <> 'applied' then
        raise exception 'job % is %; it cannot become %', p_job.id, p_job.state, p_state
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    holder := awa.secure_key(p_job, p_state);
    outcome := case when holder is null then 'busy' when holder <> p_job.id then 'duplicate' else 'applied' end;
    if outcome = 'applied' then
        perform awa.place_job(p_job, awa.changed_by(action, p_job, null));
    end if;
end
$$;
