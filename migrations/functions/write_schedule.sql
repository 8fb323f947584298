-- Write a schedule that has been checked. One that is so already is left alone, its next time included: times that passed
-- meanwhile are still to be handled. Another expression or zone starts anew, from now on.
--   p_owner  the application that declares it; null: set at run time
-- One that is at fault is tried anew: whoever sets it again may have mended what could not be read.
-- Answers created, changed or unchanged; owned where somebody else has a schedule of that name, which is left alone.
-- Index: cron_schedules_pkey. Locks the row where it changes it, and waits for nobody where it does not.
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
    -- Each turn but the last means that somebody else has added, changed or deleted it in between.
    loop
        insert into awa.cron_schedules (name, expression, timezone, job, missed, catch_up_max, overlap, owner)
        values (p_name, p_expression, p_timezone, p_job, p_missed, p_catch_up_max, p_overlap, p_owner)
            on conflict (name) do nothing;
        if found then
            return 'created';
        end if;
        select schedule.* into held from awa.cron_schedules as schedule where schedule.name = p_name;
        continue when not found;
        if held.owner is distinct from p_owner then
            return 'owned';
        elsif held.fault is null
            and (held.expression, held.timezone, held.job, held.missed, held.catch_up_max, held.overlap)
                is not distinct from (p_expression, p_timezone, p_job, p_missed, p_catch_up_max, p_overlap) then
            return 'unchanged';
        end if;
        if p_overlap <> 'queue' then
            perform awa.leave_waiting(p_name);
        end if;
        -- By what the row is once it is locked: its next time may have come in between.
        update awa.cron_schedules as schedule
           set expression = p_expression,
               timezone = p_timezone,
               job = p_job,
               missed = p_missed,
               catch_up_max = p_catch_up_max,
               overlap = p_overlap,
               planned = schedule.next_at is not null
                         and (schedule.expression, schedule.timezone) = (p_expression, p_timezone),
               next_at = case when (schedule.expression, schedule.timezone) = (p_expression, p_timezone)
                              then schedule.next_at end,
               fault = null,
               revision = schedule.revision + 1,
               changed_at = now()
         where schedule.name = p_name
           and schedule.owner is not distinct from p_owner;
        if found then
            return 'changed';
        end if;
    end loop;
end
$$;

-- Let no job of a schedule wait for an earlier one any more: the time that has waited is left out.
--   p_name  the schedule
-- Answers nothing. Index: primary keys. Locks the row of the schedule, then that of the time.
create or replace function awa.leave_waiting(p_name text) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    waiting timestamptz;
begin
    select schedule.waiting_slot into waiting
      from awa.cron_schedules as schedule
     where schedule.name = p_name
       and schedule.waiting_slot is not null
       for update;
    if found then
        update awa.cron_ticks as tick
           set outcome = 'overlap'
         where tick.schedule = p_name
           and tick.slot = waiting
           and tick.outcome = 'waiting';
        update awa.cron_schedules as schedule set waiting_slot = null where schedule.name = p_name;
    end if;
end
$$;
