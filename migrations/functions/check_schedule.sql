-- Check what SQL can judge of a schedule: all but its expression and its zone, which the leader reads, and says so in fault.
--   p_name, p_expression, p_timezone, p_job, p_missed, p_catch_up_max, p_overlap  as in awa.cron_schedules
--   p_place  comes before the name of the field in the error, like 'schedules[3].'
-- Raises 22023 (invalid_parameter_value) with the field, its value and the limit; answers nothing. Reads no table.
create or replace function awa.check_schedule(
    p_name text,
    p_expression text,
    p_timezone text,
    p_job jsonb,
    p_missed text,
    p_catch_up_max integer,
    p_overlap text,
    p_place text
)
    returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    fault constant text := awa.name_fault('schedule', p_name);
    field text;
begin
    if fault is not null then
        perform awa.refuse_with(p_place || fault);
    end if;
    if p_expression is null or octet_length(p_expression) not between 1 and 256 then
        perform awa.refuse(p_place || 'expression', octet_length(p_expression) || ' bytes', '1 to 256 bytes');
    elsif p_timezone is null or octet_length(p_timezone) not between 1 and 64 then
        perform awa.refuse(p_place || 'timezone', octet_length(p_timezone) || ' bytes', '1 to 64 bytes');
    elsif p_missed is null or p_missed not in ('skip', 'coalesce', 'catch_up') then
        perform awa.refuse(p_place || 'missed', awa.excerpt(to_json(p_missed)::text), 'skip, coalesce or catch_up');
    elsif (p_missed = 'catch_up') <> (p_catch_up_max is not null) then
        perform awa.refuse(p_place || 'catch_up_max', coalesce(p_catch_up_max::text, 'absent'), 'given with catch_up alone');
    elsif p_catch_up_max not between 1 and 10000 then
        perform awa.refuse(p_place || 'catch_up_max', p_catch_up_max::text, '1 to 10000');
    elsif p_overlap is null or p_overlap not in ('allow', 'skip', 'queue') then
        perform awa.refuse(p_place || 'overlap', awa.excerpt(to_json(p_overlap)::text), 'allow, skip or queue');
    end if;
    -- With what is added to it at each of its times, for which there has to be room.
    perform awa.read_job(
        case when jsonb_typeof(p_job) = 'object' and coalesce(jsonb_typeof(p_job -> 'metadata'), 'null') in ('null', 'object')
             then p_job || jsonb_build_object('metadata', awa.with_slot(p_job -> 'metadata', p_name,
                                                                            '2000-01-01T00:00:00.000001Z'))
             else p_job end,
        p_place || 'job');
    select key into field
      from jsonb_each(p_job) as given (key, value)
     where key in ('run_at', 'run_in')
       and value <> 'null'
     order by key
     limit 1;
    if found then
        perform awa.refuse_with(format('%sjob.%s is given; a schedule says when its job is due', p_place, field));
    end if;
end
$$;
