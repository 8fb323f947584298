-- End running attempts whose worker does not: retryable with the ordinary backoff while attempts are left, else failed.
--   p_segments         where the rows are
--   p_ids, p_leases    job ids and their run_leases, same order
--   p_errors           why, one text each: the error entry
--   p_end              null, or failed or cancelled for a row that cannot be retried; without attempts left it fails anyway
--   p_duplicate        with p_end: another job holds the unique key; the row loses it where its last state would need it
-- Progress stays; arguments are not looked at. Answers each id with its new state; an attempt that has ended is missing. The
-- workers are told: one that lives must stop its handler.
-- Index: the primary keys. Locks the unique claims that the rows hold in key order, and the rows as awa.take does.
do $install$
begin
    execute replace($function$
create or replace function awa.hand_back(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_errors text[],
    p_end awa.job_state,
    p_duplicate boolean
)
    returns table (id bigint, state awa.job_state)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $body$
#variable_conflict use_column
begin
    return query
    with taken as (
        select * from awa.take(p_segments, p_ids, p_leases)
    ),
    decided as (
        select @kept,
               taken.id as job_id,
               ends.next_state,
               case when keeps_key then taken.unique_key end as next_key,
               case when keeps_key then taken.unique_states end as next_states,
               noted.errors as next_errors,
               noted.dropped as next_dropped,
               taken.run_at,
               taken.attempted_by as told_worker,
               taken.run_lease as ended_lease
          from taken
         cross join lateral (
               select case when taken.attempt >= taken.max_attempts then 'failed'
                           else coalesce(p_end, 'retryable') end as next_state
         ) as ends
         cross join lateral (
               select not p_duplicate or (taken.unique_states & awa.state_bit(ends.next_state)) = 0 as keeps_key
         ) as uniqueness
         cross join lateral awa.append_error(taken.errors, taken.errors_dropped, jsonb_build_object(
               'at', now(), 'attempt', taken.attempt, 'lease', taken.run_lease, 'worker', taken.attempted_by,
               'source', 'rescue', 'error', p_errors[array_position(p_ids, taken.id)])) as noted
    ),
    deferred as (
        insert into awa.scheduled_jobs (@kept, state, run_at, unique_key, unique_states, errors, errors_dropped)
        select @kept, next_state, now() + awa.backoff(attempt), next_key, next_states, next_errors, next_dropped
          from decided
         where next_state = 'retryable'
    ),
    parked as (
        insert into awa.jobs_hot_parked (@kept, state, run_at, unique_key, unique_states, errors, errors_dropped,
                                         finalized_at, segment)
        select @kept, next_state, run_at, next_key, next_states, next_errors, next_dropped, now(), -1
          from decided
         where next_state <> 'retryable'
    )
    select decided.job_id, decided.next_state
      from decided
     cross join lateral awa.tell_worker(decided.told_worker, decided.job_id, decided.ended_lease, 'rescued') as told;
end
$body$
$function$,
        '@kept', awa.job_columns('state', 'run_at', 'unique_key', 'unique_states', 'errors', 'errors_dropped',
                                 'finalized_at', 'attempted_by', 'heartbeat_at', 'deadline_at'));
end
$install$;
