-- Check every limit of a job but those of its uniqueness (awa.read_unique_by), for all paths in SQL: awa.enqueue,
-- awa.enqueue_many, the view. The order and the words are those of Rust's NewJob::prepare.
--   p_kind, p_args, p_queue, p_priority, p_run_at, p_max_attempts, p_tags, p_metadata, p_trace_context
--              as the options of awa.enqueue; null: kind, args, queue, priority and max_attempts are absent, which is refused
--   p_run_in   seconds from now, instead of p_run_at; p_timeout: seconds (of an interval: extract(epoch from …))
--   p_place    comes before the name of the field in the error, like 'jobs[3].'
-- Raises 22023 (invalid_parameter_value) with the field, its value and the limit; answers nothing.
-- Reads no table.
create or replace function awa.check_job(
    p_kind text,
    p_args jsonb,
    p_queue text,
    p_priority numeric,
    p_run_at timestamptz,
    p_run_in numeric,
    p_max_attempts numeric,
    p_timeout numeric,
    p_tags text[],
    p_metadata jsonb,
    p_trace_context text,
    p_place text default ''
)
    returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $check_job$
declare
    fault text;
    tag   text;
begin
    if p_args is null then
        perform awa.refuse(p_place || 'args', 'absent', 'a JSON value');
    end if;
    fault := coalesce(awa.json_fault('args', p_args, 1048576),
                      awa.name_fault('kind', p_kind),
                      awa.name_fault('queue', p_queue));
    if fault is not null then
        perform awa.refuse_with(p_place || fault);
    end if;
    if p_priority is null or p_priority not between 1 and 4 or p_priority <> trunc(p_priority) then
        perform awa.refuse(p_place || 'priority', awa.excerpt(p_priority::text), '1 to 4');
    end if;
    if p_run_at is not null then
        perform awa.check_run_at(p_run_at, p_place);
    end if;
    if p_run_in not between 0 and 31622400000 then
        perform awa.refuse(p_place || 'run_in', awa.seconds(p_run_in), '0 seconds to 1000 years');
    end if;
    if p_max_attempts is null or p_max_attempts not between 1 and 1000 or p_max_attempts <> trunc(p_max_attempts) then
        perform awa.refuse(p_place || 'max_attempts', awa.excerpt(p_max_attempts::text), '1 to 1000');
    end if;
    if p_timeout not between 0.000001 and 316224000 then
        perform awa.refuse(p_place || 'timeout', awa.seconds(p_timeout), '1 microsecond to 10 years');
    end if;
    if array_ndims(p_tags) > 1 then
        perform awa.refuse(p_place || 'tags', format('an array of %s dimensions', array_ndims(p_tags)), 'one of 1');
    elsif cardinality(p_tags) > 32 then
        perform awa.refuse(p_place || 'tags', format('%s tags', cardinality(p_tags)), 'at most 32 tags');
    elsif cardinality(p_tags) > 0 then
        foreach tag in array p_tags loop
            fault := awa.name_fault('tag', tag);
            if fault is not null then
                perform awa.refuse_with(p_place || fault);
            end if;
        end loop;
    end if;
    if p_metadata is not null then
        if jsonb_typeof(p_metadata) <> 'object' then
            perform awa.refuse(p_place || 'metadata', awa.json_kind(p_metadata), 'an object');
        end if;
        fault := awa.json_fault('metadata', p_metadata, 65536);
        if fault is not null then
            perform awa.refuse_with(p_place || fault);
        end if;
    end if;
    if octet_length(p_trace_context) > 1024 then
        perform awa.refuse(p_place || 'trace_context', format('%s bytes', octet_length(p_trace_context)),
                           'at most 1024 bytes');
    elsif p_trace_context collate "C" ~ $regex$[\u0001-\u001f\u007f-\u009f]$regex$ then
        perform awa.refuse(p_place || 'trace_context', to_json(p_trace_context)::text, 'free of control characters');
    end if;
end
$check_job$;
