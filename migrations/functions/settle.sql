-- End running attempts in any way but completion: each row leaves the ring for the place where it goes next.
--   p_segments         where the rows were last seen: a hint
--   p_ids, p_leases    job ids and their run_leases, same order, sorted by id
--   p_outcomes         retry, snooze, fail, cancel or release
--   p_delays           seconds until the next attempt; null for the ordinary backoff
--   p_errors           the error text; null for none
--   p_progress         the last progress; null keeps what the row has
-- Whether attempts are left is decided here, on the row as locked: a retry without one ends failed. Snooze and release give
-- the attempt back. Leaving running clears owner, heartbeat and deadline; lease, progress and errors stay.
-- Answers each id with the state it is in now, or null where the lease is lost. A lease that finds its own outcome already
-- there counts as applied, so a retry after an unknown commit is harmless.
-- Index: the primary keys. Locks as awa.take does; waits at most a quarter of a second for another's lock: the caller
-- then tries smaller batches.
do $install$
begin
    execute replace($function$
create or replace function awa.settle(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_outcomes text[],
    p_delays double precision[],
    p_errors text[],
    p_progress jsonb[]
)
    returns table (id bigint, state awa.job_state)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
    set lock_timeout = '250ms'
as $settle$
#variable_conflict use_column
declare
    settled bigint[] := '{}';
    woken   text[] := '{}';
    row     record;
begin
    for row in
        with taken as (
            select * from awa.take(p_segments, p_ids, p_leases)
        ),
        decided as (
            select taken.*,
                   asked.outcome,
                   case asked.outcome
                       when 'retry' then case when taken.attempt < taken.max_attempts then 'retryable' else 'failed' end
                       when 'snooze' then 'scheduled'
                       when 'fail' then 'failed'
                       when 'cancel' then 'cancelled'
                       when 'release' then 'available'
                   end::awa.job_state as next_state,
                   case asked.outcome
                       when 'retry' then now() + coalesce(make_interval(secs => asked.delay), awa.backoff(taken.attempt))
                       when 'snooze' then now() + make_interval(secs => asked.delay)
                       else taken.run_at
                   end as next_run_at,
                   case when asked.outcome in ('snooze', 'release')
                        then greatest(taken.attempt - 1, 0)::smallint else taken.attempt end as next_attempt,
                   taken.snoozes + (asked.outcome = 'snooze')::integer as next_snoozes,
                   coalesce(asked.progress, taken.progress) as next_progress,
                   noted.errors as next_errors,
                   noted.dropped as next_dropped
              from taken
             cross join lateral (
                   select p_outcomes[place] as outcome, p_delays[place] as delay, p_errors[place] as error,
                          p_progress[place] as progress
                     from array_position(p_ids, taken.id) as place
             ) as asked
             cross join lateral awa.append_error(taken.errors, taken.errors_dropped,
                   case when asked.error is not null then jsonb_build_object(
                       'at', now(), 'attempt', taken.attempt, 'lease', taken.run_lease, 'worker', taken.attempted_by,
                       'source', 'handler', 'error', asked.error) end) as noted
        ),
        deferred as (
            insert into awa.scheduled_jobs (@kept, state, run_at, attempt, snoozes, progress, errors, errors_dropped)
            select @kept, next_state, next_run_at, next_attempt, next_snoozes, next_progress, next_errors, next_dropped
              from decided
             where next_state in ('retryable', 'scheduled')
        ),
        parked as (
            insert into awa.jobs_hot_parked (@kept, state, run_at, attempt, snoozes, progress, errors, errors_dropped,
                                             finalized_at, segment)
            select @kept, next_state, next_run_at, next_attempt, next_snoozes, next_progress, next_errors, next_dropped,
                   now(), -1
              from decided
             where next_state in ('failed', 'cancelled')
        ),
        released as (
            insert into awa.jobs_hot (@kept, state, run_at, attempt, snoozes, progress, errors, errors_dropped, segment)
            select @kept, next_state, next_run_at, next_attempt, next_snoozes, next_progress, next_errors, next_dropped,
                   awa.current_segment()
              from decided
             where next_state = 'available'
        )
        select decided.id, decided.next_state, decided.queue from decided
    loop
        settled := settled || row.id;
        id := row.id;
        state := row.next_state;
        return next;
        if row.next_state = 'available' and row.queue <> all (woken) then
            woken := woken || row.queue;
            perform awa.wake(row.queue);
        end if;
    end loop;
    if cardinality(settled) < cardinality(p_ids) then
        return query select * from awa.settled_before(p_ids, p_leases, p_outcomes, settled);
    end if;
end
$settle$
$function$,
        '@kept', awa.job_columns('state', 'run_at', 'attempt', 'snoozes', 'progress', 'errors', 'errors_dropped',
                                 'finalized_at', 'attempted_by', 'heartbeat_at', 'deadline_at'));
end
$install$;
