-- Read a job from JSON: one element of what awa.enqueue_many takes. Every limit is checked, and defaults are filled in.
--   p_job    an object whose keys are the options of awa.enqueue. A key with JSON null is as if it were not there, but for
--            args, where it is the value null.
--   p_place  what it is in errors, like 'jobs[3]'; empty where there is only one
-- Answers the job as awa.enqueue_batch takes it. Raises 22023. Reads no table.
create or replace function awa.read_job(
    p_job jsonb,
    p_place text,
    out kind text,
    out queue text,
    out priority smallint,
    out args jsonb,
    out run_at timestamptz,
    out run_in double precision,
    out max_attempts smallint,
    out timeout double precision,
    out tags jsonb,
    out metadata jsonb,
    out trace_context text,
    out on_conflict text,
    out unique_states smallint,
    out by_queue boolean,
    out by_args boolean,
    out fields jsonb,
    out period double precision
)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $read_job$
declare
    keys  constant text[] := '{kind,args,queue,priority,run_at,run_in,max_attempts,timeout,tags,metadata,unique_by,on_conflict,
                              trace_context}';
    place constant text := case when p_place = '' then '' else p_place || '.' end;
    rule  record;
    wrong record;
    -- Wider than the columns, so that a number that no column holds is refused in the same words.
    wide_priority     numeric;
    wide_run_in       numeric;
    wide_max_attempts numeric;
    wide_timeout      numeric;
begin
    if p_job is null or jsonb_typeof(p_job) <> 'object' then
        perform awa.refuse(p_place, awa.excerpt(p_job::text), 'an object');
    end if;
    -- What is right is told by its types alone; what is wrong is looked up, to name it.
    if p_job - keys <> '{}'
        or jsonb_typeof(p_job -> 'kind') not in ('string', 'null')
        or jsonb_typeof(p_job -> 'queue') not in ('string', 'null')
        or jsonb_typeof(p_job -> 'priority') not in ('number', 'null')
        or jsonb_typeof(p_job -> 'run_at') not in ('string', 'null')
        or jsonb_typeof(p_job -> 'max_attempts') not in ('number', 'null')
        or jsonb_typeof(p_job -> 'tags') is not null
        or jsonb_typeof(p_job -> 'on_conflict') not in ('string', 'null')
        or jsonb_typeof(p_job -> 'trace_context') not in ('string', 'null')
    then
        -- The keys with a type each, and whatever is wrong with them, the first in the order of the alphabet.
        select given.key, given.value, option.type, option.allowed
          into wrong
          from jsonb_each(p_job) as given (key, value)
          left join (values ('kind', 'string', 'a text'), ('args', null, null), ('queue', 'string', 'a text'),
                            ('priority', 'number', 'an integer'), ('run_at', 'string', 'a text'), ('run_in', null, null),
                            ('max_attempts', 'number', 'an integer'), ('timeout', null, null),
                            ('tags', 'array', 'an array of texts'), ('metadata', null, null), ('unique_by', null, null),
                            ('on_conflict', 'string', 'a text'), ('trace_context', 'string', 'a text'))
                    as option (key, type, allowed) on option.key = given.key
         where option.key is null
            or jsonb_typeof(given.value) not in (option.type, 'null')
            or (option.type = 'array' and jsonb_typeof(given.value) = 'array'
                and jsonb_path_exists(given.value, 'strict $[*] ? (@.type() != "string")'))
         order by given.key collate "C"
         limit 1;
        if found and wrong.type is null then
            perform awa.refuse_with(format(
                '%s%s is not known; the keys are kind, args, queue, priority, run_at, run_in, max_attempts, timeout, tags, '
                'metadata, unique_by, on_conflict and trace_context', place, awa.excerpt(wrong.key)));
        elsif found then
            perform awa.refuse(place || wrong.key, awa.excerpt(wrong.value::text), wrong.allowed);
        end if;
    end if;
    kind := p_job ->> 'kind';
    queue := coalesce(p_job ->> 'queue', 'default');
    args := coalesce(p_job -> 'args', '{}');
    wide_priority := coalesce((p_job ->> 'priority')::numeric, 2);
    wide_max_attempts := coalesce((p_job ->> 'max_attempts')::numeric, 25);
    -- Each call of a function that pins its search path costs: none is made for what is not there.
    if p_job ?| '{run_at,run_in,timeout}' then
        run_at := awa.read_time(p_job ->> 'run_at', place || 'run_at');
        wide_run_in := awa.read_seconds(p_job -> 'run_in', place || 'run_in');
        wide_timeout := awa.read_seconds(p_job -> 'timeout', place || 'timeout');
    end if;
    tags := nullif(p_job -> 'tags', 'null');
    metadata := nullif(p_job -> 'metadata', 'null');
    trace_context := p_job ->> 'trace_context';
    on_conflict := coalesce(p_job ->> 'on_conflict', 'skip');
    perform awa.check_job(
        kind, args, queue, wide_priority, run_at, wide_run_in, wide_max_attempts, wide_timeout,
        case when tags is not null then array(select jsonb_array_elements_text(tags)) end, metadata, trace_context, place);
    if on_conflict <> 'skip' or run_at is not null then
        perform awa.check_policy(on_conflict, run_at, wide_run_in, place);
    end if;
    priority := wide_priority;
    run_in := wide_run_in;
    max_attempts := wide_max_attempts;
    timeout := wide_timeout;
    tags := nullif(tags, '[]');
    if p_job ? 'unique_by' then
        rule := awa.read_unique_by(p_job -> 'unique_by', args, place);
        unique_states := rule.states;
        by_queue := rule.by_queue;
        by_args := rule.by_args;
        fields := to_jsonb(rule.fields);
        period := rule.period;
    end if;
end
$read_job$;
