-- The schedules that ask for something now: a time to be worked out, a time that has come, or a job that waits for another.
--   p_limit  how many at most, those first whose time has not come for more than a minute, and by chance: so many that are far
--            behind, or that cannot be handled for now, do not keep the others from their turn
-- now is the database's. Paused ones ask for nothing, and neither do those with a fault. One that was planned in what is the
-- future now, before the clock was set back, has to be planned anew; the ticks remember which times were handled.
-- Index: none; there is a row for each schedule. Locks those it answers until the statement ends: one that somebody has locked
-- is passed by.
create or replace function awa.due_schedules(p_limit integer)
    returns table (
        name text,
        expression text,
        timezone text,
        missed text,
        catch_up_max integer,
        revision bigint,
        planned boolean,
        next_at timestamptz,
        is_waiting boolean,
        now timestamptz
    )
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query
    select schedule.name, schedule.expression, schedule.timezone, schedule.missed, schedule.catch_up_max, schedule.revision,
           schedule.planned and not (awa.was_planned_ahead(schedule.planned_at)
                                     and coalesce(schedule.next_at > clock_timestamp(), true)),
           schedule.next_at,
           schedule.waiting_slot is not null and coalesce(awa.has_ended(schedule.last_job_id), true), clock_timestamp()
      from awa.cron_schedules as schedule
     where schedule.paused_at is null
       and schedule.fault is null
       and (not schedule.planned
            or schedule.next_at <= clock_timestamp()
            or awa.was_planned_ahead(schedule.planned_at)
            or (schedule.waiting_slot is not null and coalesce(awa.has_ended(schedule.last_job_id), true)))
     order by coalesce(schedule.next_at < clock_timestamp() - interval '1 minute', false), random()
     limit p_limit
       for no key update skip locked;
end
$$;

-- Whether what was worked out at that time was so before the clock was set back, by more than clocks are set right all day.
-- Reads no table.
create or replace function awa.was_planned_ahead(p_planned_at timestamptz) returns boolean
    language sql volatile
    set search_path = pg_catalog, pg_temp
return coalesce(p_planned_at > clock_timestamp() + interval '1 second', false);

-- Seconds until the next time of any schedule; null where none is known.
-- Index: none; there is a row for each schedule. Locks nothing.
create or replace function awa.next_schedule_in() returns double precision
    language sql stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select extract(epoch from min(schedule.next_at) - clock_timestamp())::double precision
      from awa.cron_schedules as schedule
     where schedule.paused_at is null
       and schedule.fault is null
       and schedule.planned
       -- As somebody may have written it by hand: there is no counting to it.
       and isfinite(schedule.next_at)
$$;

-- Seconds until a schedule asks for something: 0 where one does now, infinity where none will, and null where that cannot be
-- told within 50 ms. For a caller that has something else to do first, which no fault here may stop.
-- What counts is what awa.due_schedules answers, but that a locked one is not passed by.
-- Index: none; there is a row for each schedule. Locks nothing.
create or replace function awa.schedules_due_in() returns double precision
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '50ms'
as $$
begin
    return coalesce(min(case
               when not schedule.planned
                 or schedule.next_at <= clock_timestamp()
                 or awa.was_planned_ahead(schedule.planned_at)
                 or (schedule.waiting_slot is not null and coalesce(awa.has_ended(schedule.last_job_id), true)) then 0
               -- As somebody may have written it by hand: there is no counting to it.
               when isfinite(schedule.next_at) then extract(epoch from schedule.next_at - clock_timestamp())
           end), 'infinity')::double precision
      from awa.cron_schedules as schedule
     where schedule.paused_at is null
       and schedule.fault is null;
exception when others then
    return null;
end
$$;
