-- End running attempts in any way but completion, all of them in one statement: each row leaves the ring for the place where
-- it goes next. The step that awa.settle_batch and awa.settle_alone share.
--   p_segments         where the rows were last seen: a hint
--   p_ids, p_leases    job ids and their run_leases, same order, sorted by id
--   p_outcomes         retry, snooze, fail, cancel, release, park, or committed: the handler says that it has completed the job in a
--                      transaction of its own. Where the row still runs, that transaction has not committed: then it is a retry
--   p_delays           seconds until the next attempt; null for the ordinary backoff
--   p_errors           the error text; null for none
--   p_progress         the last progress; null keeps what the row has
--   p_callbacks        what those that park wait for; null where none does
--   p_conflict         null, or why the rows cannot have the unique key that their next state needs: those that would wait for
--                      another attempt are displaced, which ends them cancelled, and a row gives its key up where its last
--                      state would need it
-- Whether attempts are left is decided here, on the row as locked: a retry without one ends failed. So is whether a job waits
-- for its callback (awa.judge_parks). Snooze and release give the attempt back. Leaving running clears owner, heartbeat and
-- deadline; lease, progress and errors stay.
-- Answers each id with the state it is in now, or null where the lease is lost. A lease that finds its own outcome already
-- there counts as applied, so a retry after an unknown commit is harmless.
-- Index: the primary keys. Locks the rows that park in id order and their callbacks, then as awa.take does, then the unique
-- claims that the rows give back or take.
do $install$
begin
    execute replace($function$
create or replace function awa.settle_rows(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_outcomes text[],
    p_delays double precision[],
    p_errors text[],
    p_progress jsonb[],
    p_callbacks uuid[],
    p_conflict text
)
    returns table (id bigint, state awa.job_state)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $settle$
#variable_conflict use_column
declare
    settled  bigint[] := '{}';
    woken    text[] := '{}';
    outcomes text[] := p_outcomes;
    texts    text[] := p_errors;
    row      record;
begin
    if array_position(p_outcomes, 'park') is not null then
        select judged.p_outcomes, judged.p_errors
          into outcomes, texts
          from awa.judge_parks(p_ids, p_leases, p_callbacks, p_outcomes, p_errors) as judged;
    end if;
    for row in
        with taken as (
            select * from awa.take(p_segments, p_ids, p_leases)
        ),
        asked as (
            select taken.*,
                   wanted.outcome,
                   wanted.delay,
                   wanted.progress as last_progress,
                   wanted.error,
                   case wanted.outcome
                       when 'retry' then case when taken.attempt < taken.max_attempts then 'retryable' else 'failed' end
                       when 'snooze' then 'scheduled'
                       when 'fail' then 'failed'
                       when 'cancel' then 'cancelled'
                       when 'release' then 'available'
                       when 'park' then 'waiting_external'
                   end::awa.job_state as asked_state
              from taken
             cross join lateral (
                   select case outcomes[place] when 'committed' then 'retry' else outcomes[place] end as outcome,
                          p_delays[place] as delay, texts[place] as error,
                          p_progress[place] as progress
                     from array_position(p_ids, taken.id) as place
             ) as wanted
        ),
        decided as (
            select @kept,
                   ends.next_state,
                   case when uniqueness.keeps_key then asked.unique_key end as next_key,
                   case when uniqueness.keeps_key then asked.unique_states end as next_states,
                   case asked.outcome
                       when 'retry' then now() + coalesce(make_interval(secs => asked.delay), awa.backoff(asked.attempt))
                       when 'snooze' then now() + make_interval(secs => asked.delay)
                       else asked.run_at
                   end as next_run_at,
                   case when asked.outcome in ('snooze', 'release') and not ends.displaced
                        then greatest(asked.attempt - 1, 0)::smallint else asked.attempt end as next_attempt,
                   asked.snoozes + (asked.outcome = 'snooze' and not ends.displaced)::integer as next_snoozes,
                   coalesce(asked.last_progress, asked.progress) as next_progress,
                   noted.errors as next_errors,
                   noted.dropped as next_dropped
              from asked
             cross join lateral (
                   select p_conflict is not null and asked.asked_state not in ('failed', 'cancelled') as displaced
             ) as conflict
             cross join lateral (
                   select conflict.displaced,
                          case when conflict.displaced then 'cancelled' else asked.asked_state end as next_state
             ) as ends
             cross join lateral (
                   select p_conflict is null
                              or (asked.unique_states & awa.state_bit(ends.next_state)) = 0 as keeps_key
             ) as uniqueness
             cross join lateral awa.append_error(asked.errors, asked.errors_dropped,
                   case when asked.error is not null or p_conflict is not null then jsonb_build_object(
                       'at', now(), 'attempt', asked.attempt, 'lease', asked.run_lease, 'worker', asked.attempted_by,
                       'source', 'handler',
                       'error', awa.join_error(asked.error, 'it cannot have its unique key: ' || p_conflict)) end)
                   as noted
        ),
        deferred as (
            insert into awa.scheduled_jobs (@kept, unique_key, unique_states, state, run_at, attempt, snoozes, progress, errors,
                                             errors_dropped)
            select @kept, next_key, next_states, next_state, next_run_at, next_attempt, next_snoozes, next_progress,
                   next_errors, next_dropped
              from decided
             where next_state in ('retryable', 'scheduled')
        ),
        parked as (
            insert into awa.jobs_hot_parked (@kept, unique_key, unique_states, state, run_at, attempt, snoozes, progress, errors,
                                             errors_dropped,
                                             finalized_at, segment)
            select @kept, next_key, next_states, next_state, next_run_at, next_attempt, next_snoozes, next_progress,
                   next_errors, next_dropped,
                   case when next_state <> 'waiting_external' then now() end, -1
              from decided
             where next_state in ('failed', 'cancelled', 'waiting_external')
        ),
        released as (
            insert into awa.jobs_hot (@kept, unique_key, unique_states, state, run_at, attempt, snoozes, progress, errors,
                                             errors_dropped, segment)
            select @kept, next_key, next_states, next_state, next_run_at, next_attempt, next_snoozes, next_progress,
                   next_errors, next_dropped,
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
        return query select * from awa.settled_before(p_ids, p_leases, p_outcomes, p_callbacks, settled);
    end if;
end
$settle$
$function$,
        '@kept', awa.job_columns('state', 'run_at', 'attempt', 'snoozes', 'progress', 'errors', 'errors_dropped',
                                 'finalized_at', 'attempted_by', 'heartbeat_at', 'deadline_at', 'unique_key', 'unique_states'));
end
$install$;
