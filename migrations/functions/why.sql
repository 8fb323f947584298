-- Why is this job not running? Rows with a reason each, the most decisive first; several may hold at once.
--   job_id       the job
--   stale_after  silence after which a worker or an attempt is taken for dead; give what the workers have
-- Answers:
--   reason       a word of the list below, for programs; later releases add some
--   explanation  a sentence for people
--   advice       what can be done
--   detail       what the reason is about: numbers, names, times
-- The reasons:
--   not_found              there is no such job: not yet committed, or deleted, or past its retention
--   finished               it has completed, failed, or was cancelled
--   runs                   it does; of a worker that gives signs of life
--   stale                  it runs as far as is known, and its worker seems dead
--   waiting                it waits for the answer to a callback
--   callback_overdue       it does, and that should have timed out
--   due_later, retrying    it is due later
--   not_promoted           it is due, and not available yet
--   no_leader              nobody does what the row beside this one waits for: nobody leads, and no tick did a duty for an hour
--   paused                 its queue is
--   no_worker, no_worker_for_queue, no_worker_for_kind   nobody is alive that would run it
--   locked                 a transaction that is open has the job locked; workers pass it by
--   behind                 other jobs go first
--   next                   nothing is known to be in the way
-- Index: primary keys, dispatch, scheduled_jobs_due, callbacks_job; a bounded number of rows. Locks nothing.
create or replace function awa.why(job_id bigint, stale_after interval default '90 seconds')
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
    set datestyle = 'ISO'
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
#variable_conflict use_column
declare
    job  record;
    span constant interval := least(greatest(coalesce(why.stale_after, '90 seconds'), '0'), '1000 years');
begin
    select found.* into job
      from (select hot.id, hot.state, hot.kind, hot.queue, hot.priority, hot.seq, hot.run_at, hot.attempt, hot.max_attempts,
                   hot.run_lease, hot.attempted_at, hot.attempted_by, hot.heartbeat_at, hot.deadline_at, hot.finalized_at,
                   hot.errors -> -1 ->> 'error' as error, hot.xmax::text::bigint as locker
              from awa.jobs_hot as hot
             where hot.id = why.job_id
             union all
            select deferred.id, deferred.state, deferred.kind, deferred.queue, deferred.priority, null, deferred.run_at,
                   deferred.attempt, deferred.max_attempts, deferred.run_lease, deferred.attempted_at,
                   deferred.attempted_by, deferred.heartbeat_at, deferred.deadline_at, deferred.finalized_at,
                   deferred.errors -> -1 ->> 'error', deferred.xmax::text::bigint
              from awa.scheduled_jobs as deferred
             where deferred.id = why.job_id) as found
     limit 1;
    -- What the view hides is gone, although its segment still stands.
    if job.id is null or not exists (select from awa.jobs as shown where shown.id = why.job_id) then
        reason := 'not_found';
        explanation := format('there is no job %s', why.job_id);
        advice := 'it may be in a transaction that has not committed, have been deleted, or be past its retention';
        detail := '{}';
        return next;
    elsif job.state in ('completed', 'failed', 'cancelled') then
        return query select * from awa.why_finished(job.state, job.finalized_at, job.attempt, job.error);
    elsif job.state = 'running' then
        return query
        select * from awa.why_running(job.attempted_by, job.attempted_at, job.heartbeat_at, job.deadline_at, job.attempt, span);
    elsif job.state = 'waiting_external' then
        return query select * from awa.why_waiting(job.id, job.run_lease);
    else
        if job.state <> 'available' then
            return query
            select * from awa.why_deferred(job.id, job.state, job.run_at, job.attempt, job.max_attempts, job.error);
        end if;
        return query select * from awa.why_unserved(job.queue, job.kind, span);
        return query select * from awa.why_locked(job.locker);
        if job.state = 'available' then
            return query select * from awa.why_behind(job.queue, job.kind, job.priority, job.seq, span);
        end if;
    end if;
end
$$;
