-- Set a periodic job at run time: add it, or replace what it was. docs/schedules.md says what each option means.
--   name        what tells it from all others
--   expression  a cron expression of five fields, or of six with seconds first; timezone: on whose clocks
--   job         an object whose keys are the options of awa.enqueue, without run_at and run_in
--   missed      skip, coalesce or catch_up, the last with catch_up_max; overlap: allow, skip or queue
-- Answers created, changed or unchanged, or owned where an application declares a schedule of that name in its code: that one
-- is left alone. Raises 22023 for bad input. An expression or zone that cannot be read, or names a date that never comes, shows
-- as fault in awa.cron_schedules within a second; Rust refuses it at once.
-- Index: cron_schedules_pkey. Locks the row.
create or replace function awa.set_schedule(
    name text,
    expression text,
    job jsonb,
    timezone text default 'UTC',
    missed text default 'coalesce',
    catch_up_max integer default null,
    overlap text default 'allow'
)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    timezone := coalesce(timezone, 'UTC');
    missed := coalesce(missed, 'coalesce');
    overlap := coalesce(overlap, 'allow');
    perform awa.check_schedule(name, expression, timezone, job, missed, catch_up_max, overlap, '');
    return awa.write_schedule(null, name, expression, timezone, job, missed, catch_up_max, overlap);
end
$$;

-- Delete a periodic job. Jobs that it has enqueued stay, and so does what is known of its times.
--   name  its name. One that an application declares comes back when the application starts again.
-- Answers whether there was one. Index: cron_schedules_pkey. Locks the row.
create or replace function awa.delete_schedule(name text) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform awa.leave_waiting(name);
    delete from awa.cron_schedules as schedule where schedule.name = name;
    return found;
end
$$;

-- Pause a periodic job: none of its times counts until it is resumed, and none is made up then. Kept when it is declared again.
--   name  its name
-- Answers applied, unchanged or not_found. Index: cron_schedules_pkey. Locks the row.
create or replace function awa.pause_schedule(name text) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    perform awa.leave_waiting(name);
    update awa.cron_schedules as schedule
       set paused_at = now(),
           revision = schedule.revision + 1,
           changed_at = now()
     where schedule.name = name
       and schedule.paused_at is null;
    return case when found then 'applied'
                when exists (select 1 from awa.cron_schedules as schedule where schedule.name = name) then 'unchanged'
                else 'not_found' end;
end
$$;

-- Resume a periodic job: its next time is the first from now on.
--   name  its name
-- Answers applied, unchanged or not_found. Index: cron_schedules_pkey. Locks the row.
create or replace function awa.resume_schedule(name text) returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    update awa.cron_schedules as schedule
       set paused_at = null,
           planned = false,
           next_at = null,
           fault = null,
           revision = schedule.revision + 1,
           changed_at = now()
     where schedule.name = name
       and schedule.paused_at is not null;
    return case when found then 'applied'
                when exists (select 1 from awa.cron_schedules as schedule where schedule.name = name) then 'unchanged'
                else 'not_found' end;
end
$$;
