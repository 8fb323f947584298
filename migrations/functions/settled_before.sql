-- Attempts that awa.settle_rows did not find running: has the same call settled them already, its answer lost on the way?
--   p_ids, p_leases, p_outcomes, p_callbacks  as there
--   p_settled                                 ids that need no answer
-- Answers each id with the state its own outcome left it in, or null: the lease is lost. An error entry must be the
-- handler's own under this lease, so that a rescue is not taken for a retry. A retry, snooze or release may have ended cancelled,
-- displaced by the job that holds its unique key. For committed, a job that is completed under this lease is what it says.
-- One that parked is settled for good, whatever has become of the job since, and so is one whose callback was answered for good
-- while it ran: the handler wanted nothing else. Their state is waiting_external where the job has moved on to another lease.
-- Index: the primary keys, callbacks_job. Locks nothing.
create or replace function awa.settled_before(
    p_ids bigint[],
    p_leases bigint[],
    p_outcomes text[],
    p_callbacks uuid[],
    p_settled bigint[]
)
    returns table (id bigint, state awa.job_state)
    language sql stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
    select asked.id, coalesce(job.state, parked.state)
      from unnest(p_ids, p_leases, p_outcomes, p_callbacks) as asked (id, run_lease, outcome, callback)
      left join lateral (
           select 'waiting_external'::awa.job_state as state
             from awa.callbacks as own
            where asked.outcome = 'park'
              and own.job_id = asked.id
              and own.run_lease = asked.run_lease
              and (own.answer in ('complete', 'fail') or own.parked and own.id = asked.callback)
            limit 1
      ) as parked on true
      left join lateral (
           select found.state
             from (select hot.run_lease, hot.state, hot.errors
                     from awa.jobs_hot as hot
                    where hot.id = asked.id
                    union all
                   select deferred.run_lease, deferred.state, deferred.errors
                     from awa.scheduled_jobs as deferred
                    where deferred.id = asked.id) as found
            where found.run_lease = asked.run_lease
              and case asked.outcome
                      when 'retry' then found.state in ('retryable', 'failed', 'cancelled')
                      when 'fail' then found.state = 'failed'
                      when 'cancel' then found.state = 'cancelled'
                      when 'snooze' then found.state in ('scheduled', 'cancelled')
                      when 'release' then found.state in ('available', 'cancelled')
                      when 'committed' then found.state in ('completed', 'retryable', 'failed', 'cancelled')
                      when 'park' then found.state in ('retryable', 'failed', 'cancelled') or parked.state is not null
                  end
              and (found.state in ('scheduled', 'available', 'completed')
                   or parked.state is not null
                   or ((found.errors -> -1 ->> 'lease')::bigint = asked.run_lease
                       and found.errors -> -1 ->> 'source' = 'handler'))
           offset 0
      ) as job on true
     where asked.id <> all (p_settled)
$$;
