-- The schedules that ask for something now: a time to be worked out, a time that has come, or a job that waits for another.
--   p_limit  how many at most, those first whose time has not come for more than a minute, and by chance: so many that are far
--            behind, or that cannot be handled for now, do not keep the others from their turn
-- now is the database's. Paused ones ask for nothing, and neither do those with a fault.
-- Index: none; there is a row for each schedule. Locks nothing.
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
           schedule.planned, schedule.next_at,
           schedule.waiting_slot is not null and coalesce(awa.has_ended(schedule.last_job_id), true), clock_timestamp()
      from awa.cron_schedules as schedule
     where schedule.paused_at is null
       and schedule.fault is null
       and (not schedule.planned
            or schedule.next_at <= clock_timestamp()
            or (schedule.waiting_slot is not null and coalesce(awa.has_ended(schedule.last_job_id), true)))
     order by coalesce(schedule.next_at < clock_timestamp() - interval '1 minute', false), random()
     limit p_limit;
end
$$;

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
