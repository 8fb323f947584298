-- Attempts that awa.settle_rows did not find running: has the same call settled them already, its answer lost on the way?
--   p_ids, p_leases, p_outcomes  as there
--   p_settled                    ids that need no answer
-- Answers each id with the state its own outcome left it in, or null: the lease is lost. An error entry must be the
-- handler's own under this lease, so that a rescue is not taken for a retry. A retry, snooze or release may have ended cancelled,
-- displaced by the job that holds its unique key. For committed, a job that is completed under this lease is what it says.
-- Index: the primary keys. Locks nothing.
create or replace function awa.settled_before(
    p_ids bigint[],
    p_leases bigint[],
    p_outcomes text[],
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
    select asked.id, job.state
      from unnest(p_ids, p_leases, p_outcomes) as asked (id, run_lease, outcome)
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
                  end
              and (found.state in ('scheduled', 'available', 'completed')
                   or ((found.errors -> -1 ->> 'lease')::bigint = asked.run_lease
                       and found.errors -> -1 ->> 'source' = 'handler'))
           offset 0
      ) as job on true
     where asked.id <> all (p_settled)
$$;
