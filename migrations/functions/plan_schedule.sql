-- Note when a schedule is due next, worked out for the first time, for another expression, or for a clock that was set back.
--   p_name, p_revision  the schedule, as it was when that was worked out
--   p_next_at           the time; null: never again
--   p_fault             why it could not be worked out; what had been, by another release perhaps, is kept until it is set again
-- False where the schedule is another by now, or has been planned. Index: cron_schedules_pkey. Locks the row,
-- and is false where somebody else has.
create or replace function awa.plan_schedule(p_name text, p_revision bigint, p_next_at timestamptz, p_fault text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform 1 from awa.cron_schedules as schedule where schedule.name = p_name for no key update skip locked;
    if not found then
        return false;
    end if;
    update awa.cron_schedules as schedule
       set planned = true,
           next_at = case when p_fault is null then p_next_at else schedule.next_at end,
           planned_at = clock_timestamp(),
           fault = p_fault
     where schedule.name = p_name
       and schedule.revision = p_revision
       and (not schedule.planned
            or awa.was_planned_ahead(schedule.planned_at)
            or (p_fault is not null and schedule.fault is null));
    return found;
end
$$;
