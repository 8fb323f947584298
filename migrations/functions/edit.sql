-- Change a job by hand. What is not named stays as it is; limits and words are those of awa.enqueue.
--   job_id   the job
--   changes  an object. Of a job that waits (scheduled, available, retryable): queue, priority, run_at or run_in, args,
--            max_attempts, timeout, tags, metadata; of any other: max_attempts, tags, metadata. JSON null takes a timeout, tags
--            or metadata away.
-- The state of a scheduled or available job follows its due time; a retryable one stays so. The unique key stays what it was
-- when the job was enqueued.
-- Answers the outcome, the state of the job now, and the holder where there is one:
--   applied    something changed
--   unchanged  it is so already
--   refused    its state does not allow one of these changes
--   duplicate  another job, the holder, has a unique key that it would need only now
--   busy       somebody has the job locked for more than a second; nothing was changed, try again
--   not_found  there is no such job
-- Fails with 22023 for bad input. Locks the row, then its unique claim. Index: the primary keys.
create or replace function awa.edit(
    inout job_id bigint,
    changes jsonb,
    out outcome text,
    out state awa.job_state,
    out holder bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '1s'
as $$
declare
    given  record := awa.read_changes(changes);
    job    awa.jobs_hot;
    wanted awa.jobs_hot;
begin
    select locked.* into job from awa.lock_jobs(array[edit.job_id]) as locked;
    if not found then
        outcome := 'not_found';
        return;
    end if;
    state := job.state;
    if job.state not in ('scheduled', 'available', 'retryable')
        and changes ?| array['queue', 'priority', 'run_at', 'run_in', 'args', 'timeout']
    then
        outcome := 'refused';
        return;
    end if;
    wanted := job;
    if changes ? 'queue' then wanted.queue := given.queue; end if;
    if changes ? 'priority' then wanted.priority := given.priority; end if;
    if changes ? 'args' then wanted.args := given.args; end if;
    if changes ? 'max_attempts' then wanted.max_attempts := given.max_attempts; end if;
    if changes ? 'timeout' then wanted.timeout := given.timeout; end if;
    if changes ? 'tags' then wanted.tags := given.tags; end if;
    if changes ? 'metadata' then wanted.metadata := given.metadata; end if;
    if changes ?| array['run_at', 'run_in'] then wanted.run_at := given.due; end if;
    select changed.outcome, changed.state, changed.holder
      into outcome, state, holder
      from awa.change_job(job, wanted) as changed;
exception when lock_not_available or deadlock_detected then
    outcome := 'busy';
    state := awa.state_of(job_id);
end
$$;
