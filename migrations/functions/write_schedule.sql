-- Write a schedule that has been checked. One that is so already is left alone, its next time included: times that passed
-- meanwhile are still to be handled. Another expression or zone starts anew, from now on.
--   p_owner  the application that declares it; null: set at run time
-- Answers created, changed or unchanged; owned where somebody else has a schedule of that name, which is left alone.
-- Index: cron_schedules_pkey. Locks the row.
create or replace function awa.write_schedule(
    p_owner text,
    p_name text,
    p_expression text,
    p_timezone text,
    p_job jsonb,
    p_missed text,
    p_catch_up_max integer,
    p_overlap text
)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    held awa.cron_schedules;
begin
    insert into awa.cron_schedules (name, expression, timezone, job, missed, catch_up_max, overlap, owner)
    values (p_name, p_expression, p_timezone, p_job, p_missed, p_catch_up_max, p_overlap, p_owner)
        on conflict (name) do nothing;
    if found then
        return 'created';
    end if;
    select schedule.* into held from awa.cron_schedules as schedule where schedule.name = p_name for update;
    if not found then
        -- Deleted between the two statements.
        raise exception 'schedule % is being deleted', to_json(p_name) using errcode = '40001';
    elsif held.owner is distinct from p_owner then
        return 'owned';
    elsif (held.expression, held.timezone, held.job, held.missed, held.catch_up_max, held.overlap)
            is not distinct from (p_expression, p_timezone, p_job, p_missed, p_catch_up_max, p_overlap) then
        return 'unchanged';
    end if;
    update awa.cron_schedules as schedule
       set expression = p_expression,
           timezone = p_timezone,
           job = p_job,
           missed = p_missed,
           catch_up_max = p_catch_up_max,
           overlap = p_overlap,
           waiting_slot = case when p_overlap = 'queue' then held.waiting_slot end,
           planned = held.planned and (held.expression, held.timezone) = (p_expression, p_timezone),
           next_at = case when (held.expression, held.timezone) = (p_expression, p_timezone) then held.next_at end,
           fault = case when (held.expression, held.timezone) = (p_expression, p_timezone) then held.fault end,
           revision = held.revision + 1,
           changed_at = now()
     where schedule.name = p_name;
    return 'changed';
end
$$;
