-- Enqueue one job: the contract for every language. docs/producers.md says what each option means and may hold.
-- Answers the id and the outcome: inserted, or duplicate or replaced with the id of the job that holds the unique key.
-- Fails with 22023 for bad input, AWA02 for a conflict under the policy error, AWA01 where a key never settles. Locks and
-- waits as awa.enqueue_one and awa.enqueue_batch.
create or replace function awa.enqueue(
    kind text,
    args jsonb default '{}',
    queue text default 'default',
    priority integer default 2,
    run_at timestamptz default null,
    run_in interval default null,
    max_attempts integer default 25,
    timeout interval default null,
    tags text[] default null,
    metadata jsonb default null,
    unique_by jsonb default null,
    on_conflict text default 'skip',
    trace_context text default null,
    out job_id bigint,
    out outcome text
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $enqueue$
#variable_conflict use_variable
declare
    delay  constant numeric := extract(epoch from run_in);
    most   constant numeric := extract(epoch from timeout);
    due    timestamptz;
    answer bigint;
    unique_key bytea;
    states     smallint;
    by_queue   boolean;
    by_args    boolean;
    fields     text[];
    period     double precision;
begin
    -- A client that sends null for what it was not given means the default.
    args := coalesce(args, '{}');
    queue := coalesce(queue, 'default');
    priority := coalesce(priority, 2);
    max_attempts := coalesce(max_attempts, 25);
    on_conflict := coalesce(on_conflict, 'skip');
    -- An array may count from another number than 1, which not every reader takes.
    tags := case when cardinality(tags) > 0 and array_ndims(tags) = 1 then array(select unnest(tags)) else nullif(tags, '{}') end;
    perform awa.check_job(kind, args, queue, priority, run_at, delay, max_attempts, most, tags, metadata, trace_context);
    perform awa.check_policy(on_conflict, run_at, delay);
    if unique_by is not null then
        select rule.states, rule.by_queue, rule.by_args, rule.fields, rule.period
          into states, by_queue, by_args, fields, period
          from awa.read_unique_by(unique_by, args) as rule;
        if states is not null and on_conflict <> 'skip' then
            select enqueued.job_id, enqueued.outcome
              into job_id, outcome
              from awa.enqueue_batch(
                       array[kind], array[queue], array[priority]::smallint[], array[args], array[run_at], array[delay],
                       array[max_attempts]::smallint[], array[most], array[to_jsonb(tags)], array[metadata],
                       array[trace_context], array[states], array[by_queue], array[by_args], array[to_jsonb(fields)],
                       array[period], array[on_conflict]) as enqueued;
            return;
        end if;
    end if;
    due := coalesce(run_at, now() + make_interval(secs => delay::double precision), now());
    if states is not null then
        unique_key := awa.unique_key(kind, case when by_queue then queue end,
                                     case when by_args or fields is not null then args end, fields, period, due);
    end if;
    answer := awa.enqueue_one(
        kind, queue, priority::smallint, args, due, max_attempts::smallint,
        make_interval(secs => most::double precision), tags, metadata, trace_context, unique_key, states);
    job_id := abs(answer);
    outcome := case when answer < 0 then 'duplicate' else 'inserted' end;
end
$enqueue$;
