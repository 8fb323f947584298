-- Enqueue many jobs at once. Jobs whose unique key is held, by another job or by an earlier one of the batch, are not
-- inserted; each says what to do instead.
--   One array a column, all in the same order. An array may be empty or shorter: what it lacks is null.
--   p_kinds, p_queues, p_priorities, p_args, p_max_attempts   given for each job
--   p_run_ats, p_delays          when it is due: a time, or seconds from now; neither: now
--   p_timeouts                   seconds
--   p_tags                       jsonb arrays of texts
--   p_unique_states              bits of the states in which the job holds its unique key; null: it has none
--   p_unique_by_queue, p_unique_by_args, p_unique_fields (jsonb arrays of texts), p_unique_periods   see awa.unique_key
--   p_on_conflicts               skip: it is a duplicate; replace: the holder, if it waits for a run, takes the new args and due
--                                time; error: AWA02
--   Limits are checked by the caller (Rust's NewJob::prepare, or awa.enqueue_many).
-- Answers the outcome of each job, in the order given: inserted with its own id, or duplicate or replaced with the id of the
-- job that holds the key.
-- Waits only for open transactions that have one of the unique keys in hand or, to replace, one of the jobs.
-- Index: none but the unique claims'. Locks the jobs to be replaced in id order, the unique claims in key order, then the
-- rows it inserts, in the order given.
do $install$
declare
    branch constant text := $branch$
        when @segment then
            insert into awa.jobs_hot_@segment (id, run_at, timeout, priority, max_attempts, unique_states,
                                               kind, queue, args, metadata, tags, trace_context, unique_key)@rows
               and given.due <= now()
             order by given.place;$branch$;
    rows constant text := $rows$
            select given.id, given.due, make_interval(secs => given.timeout), given.priority, given.max_attempts,
                   given.unique_states, given.kind, given.queue, given.args, given.metadata,
                   case when given.tags is not null then array(select jsonb_array_elements_text(given.tags)) end,
                   given.trace_context, given.unique_key
              from unnest(ids, dues, unique_keys, slots, p_timeouts, p_priorities, p_max_attempts, p_unique_states,
                          p_kinds, p_queues, args, p_metadata, p_tags, p_trace_contexts) with ordinality
                   as given (id, due, unique_key, slot, timeout, priority, max_attempts, unique_states,
                             kind, queue, args, metadata, tags, trace_context, place)
             where (given.slot is null or holders[given.slot] = given.id)$rows$;
    branches text;
begin
    select string_agg(replace(branch, '@segment', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace(replace($function$
create or replace function awa.enqueue_batch(
    p_kinds text[],
    p_queues text[],
    p_priorities smallint[],
    p_args jsonb[],
    p_run_ats timestamptz[],
    p_delays double precision[],
    p_max_attempts smallint[],
    p_timeouts double precision[],
    p_tags jsonb[],
    p_metadata jsonb[],
    p_trace_contexts text[],
    p_unique_states smallint[],
    p_unique_by_queue boolean[],
    p_unique_by_args boolean[],
    p_unique_fields jsonb[],
    p_unique_periods double precision[],
    p_on_conflicts text[]
)
    returns table (job_id bigint, outcome text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $enqueue_batch$
#variable_conflict use_column
declare
    args        jsonb[] := p_args;
    ids         bigint[];
    dues        timestamptz[];
    unique_keys bytea[];
    -- Which of the wanted keys a job waits for; null: none.
    slots       integer[];
    wanted_keys bytea[];
    wanted_ids  bigint[];
    holders     bigint[];
    woken       text[];
    gates_max   constant integer := 1000;
    -- Null where the holder says it: inserted if that is the job itself, else duplicate.
    outcomes    text[];
begin
    select array_agg(drawn.id order by drawn.place), array_agg(drawn.due order by drawn.place)
      into ids, dues
      from (select nextval('awa.job_id') as id,
                   coalesce(given.run_at, now() + make_interval(secs => given.delay), now()) as due,
                   given.place
              from unnest(p_kinds, p_run_ats, p_delays) with ordinality as given (kind, run_at, delay, place)) as drawn;
    if cardinality(p_unique_states) > 0 then
        select keyed.unique_keys, keyed.slots, keyed.wanted_keys, keyed.wanted_ids
          into unique_keys, slots, wanted_keys, wanted_ids
          from awa.batch_unique_keys(ids, dues, p_kinds, p_queues, p_args, p_unique_states, p_unique_by_queue,
                                     p_unique_by_args, p_unique_fields, p_unique_periods) as keyed;
        if wanted_keys is null then
            null;
        elsif p_on_conflicts && array['replace', 'error'] then
            select resolved.holders, resolved.dues, resolved.args, resolved.outcomes
              into holders, dues, args, outcomes
              from awa.resolve_conflicts(wanted_keys, wanted_ids, ids, slots, p_unique_states, p_on_conflicts,
                                         dues, args) as resolved;
        else
            holders := awa.take_unique_keys(wanted_keys, wanted_ids);
        end if;
    end if;
    if exists (select from unnest(dues) as given (due) where given.due > now()) then
        insert into awa.scheduled_jobs (id, run_at, timeout, priority, max_attempts, unique_states,
                                        kind, queue, args, metadata, tags, trace_context, unique_key)@rows
           and given.due > now()
         order by given.place;
    end if;
    case (select ring.current % 8 from awa.ring as ring)@branches
    end case;
    woken := array(
        select distinct given.queue
          from unnest(ids, dues, slots, p_queues) as given (id, due, slot, queue)
         where given.due <= now()
           and (given.slot is null or holders[given.slot] = given.id));
    -- A gate is a lock of its own, of which a server has few: with very many queues everybody who listens is told.
    if cardinality(woken) <= gates_max then
        perform awa.wake(queue) from unnest(woken) as queue;
    else
        perform awa.announce('awa', hash) from (select distinct hashtext(queue)::text as hash from unnest(woken) as queue) as told;
    end if;
    return query
    select case when given.slot is null then given.id else holders[given.slot] end,
           case
               when given.outcome is not null then given.outcome
               when given.slot is null or holders[given.slot] = given.id then 'inserted'
               else 'duplicate'
           end
      from unnest(ids, slots, outcomes) with ordinality as given (id, slot, outcome, place)
     order by given.place;
end
$enqueue_batch$
$function$, '@branches', branches), '@rows', rows);
end
$install$;
