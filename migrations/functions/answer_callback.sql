-- Give a callback its answer, if it is the first one: the body of awa.callback_complete, callback_resume and callback_fail.
--   p_callback          the callback
--   p_answer            complete, fail or resume
--   p_payload, p_error  what comes with it
-- Answers as awa.callback_complete does.
-- The job is under the lease of the callback and runs, or waits for this very callback: judged on the rows as locked. So of an
-- answer, another answer, the timeout, an operator and a settlement one takes effect, and the others find that out.
-- Index: the primary keys. Locks the row of the job, then that of the callback, then the unique claim of the job. Whoever is in
-- the way is waited for, for a second.
create or replace function awa.answer_callback(
    p_callback uuid,
    p_answer text,
    p_payload jsonb,
    p_error text,
    out job_id bigint,
    out outcome text,
    out state awa.job_state
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
    set lock_timeout = '1s'
as $$
declare
    job    awa.jobs_hot;
    wanted awa.jobs_hot;
    given  awa.callbacks;
    owner  bigint;
    holder bigint;
begin
    outcome := 'not_found';
    select known.job_id into owner from awa.callbacks as known where known.id = p_callback;
    if not found then
        return;
    end if;
    begin
        select locked.* into job from awa.lock_jobs(array[owner]) as locked;
    exception when lock_not_available or deadlock_detected then
        job_id := owner;
        outcome := 'busy';
        state := awa.state_of(owner);
        return;
    end;
    select known.* into given from awa.callbacks as known where known.id = p_callback for update;
    if job.id is null or given.id is null then
        return;
    end if;
    job_id := job.id;
    state := job.state;
    outcome := case
        when given.answer is not null then
            case when given.answer = p_answer
                      and given.payload is not distinct from p_payload
                      and given.error is not distinct from p_error then 'unchanged' else 'refused' end
        when job.run_lease <> given.run_lease then 'refused'
        when job.state = 'running' or (job.state = 'waiting_external' and given.parked) then 'applied'
        else 'refused'
    end;
    if outcome <> 'applied' then
        return;
    end if;
    -- While the handler runs, this answer only waits for it: parking finds it.
    if p_answer <> 'resume' or job.state <> 'running' then
        wanted := awa.answered_by(p_answer, job, p_payload, p_error, null);
        holder := awa.secure_key(job, wanted.state);
        if holder is null then
            outcome := 'busy';
            return;
        elsif holder <> job.id then
            wanted := awa.answered_by(p_answer, job, p_payload, p_error,
                                      format('job %s needs a unique key that job %s holds', job.id, holder));
        end if;
        perform awa.place_job(job, wanted);
        state := wanted.state;
    end if;
    update awa.callbacks as known
       set answered_at = clock_timestamp(), answer = p_answer, payload = p_payload, error = p_error
     where known.id = p_callback;
end
$$;
