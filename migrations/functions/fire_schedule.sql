-- Handle times of a schedule: each is noted and its job enqueued, in one transaction. Of two leaders one does it.
--   p_name, p_revision, p_from  the schedule, as it was when this was decided, and the first time that was not handled then
--   p_slots                     the times whose jobs are to be enqueued, in order
--   p_missed_first, p_missed_last  the first and the last of those that are left out; null where none is
--   p_next_at                   the first time after all these; null: never again
-- Answers what became of each slot, in order, and the job; nothing where the schedule is another by now, or was handled by
-- somebody else, or somebody has it locked. A job that cannot be enqueued is refused: its time is noted with the error, and the others are done.
-- Index: primary keys. Locks the row of the schedule, then as awa.enqueue_many.
create or replace function awa.fire_schedule(
    p_name text,
    p_revision bigint,
    p_from timestamptz,
    p_slots timestamptz[],
    p_missed_first timestamptz,
    p_missed_last timestamptz,
    p_next_at timestamptz
)
    returns table (slot timestamptz, outcome text, job_id bigint, error text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    held awa.cron_schedules;
begin
    select schedule.* into held
      from awa.cron_schedules as schedule
     where schedule.name = p_name
       and schedule.revision = p_revision
       and schedule.next_at = p_from
       and schedule.paused_at is null
       -- Whatever the clock of the caller says.
       and not exists (select from unnest(p_slots) as slot (time) where slot.time > clock_timestamp())
       for update skip locked;
    if not found then
        return;
    end if;
    if p_missed_last is not null then
        insert into awa.cron_ticks as tick (schedule, slot, outcome, missed_since)
        values (p_name, p_missed_last, 'missed', p_missed_first)
            on conflict (schedule, slot) do nothing;
        update awa.cron_schedules as schedule
           set last_slot = p_missed_last,
               last_outcome = 'missed'
         where schedule.name = p_name;
    end if;
    foreach slot in array p_slots loop
        select fired.outcome, fired.job_id, fired.error
          into outcome, job_id, error
          from awa.fire_slot(p_name, slot, 'fired') as fired;
        -- Null: this time had been handled before, by the memory of its tick.
        if outcome is not null then
            return next;
        end if;
    end loop;
    update awa.cron_schedules as schedule
       set next_at = p_next_at,
           planned_at = clock_timestamp()
     where schedule.name = p_name;
end
$$;

-- Enqueue the job that waits for the last one of its schedule to have ended, if it has.
--   p_name  the schedule
-- Answers what became of it; nothing where no job waits, or must wait on, or somebody has the schedule locked. Index: primary
-- keys. Locks as awa.fire_schedule.
create or replace function awa.fire_waiting(p_name text)
    returns table (slot timestamptz, outcome text, job_id bigint, error text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '1s'
as $$
#variable_conflict use_column
begin
    select schedule.waiting_slot into slot
      from awa.cron_schedules as schedule
     where schedule.name = p_name
       and schedule.paused_at is null
       and schedule.waiting_slot is not null
       and coalesce(awa.has_ended(schedule.last_job_id), true)
       for update skip locked;
    if not found then
        return;
    end if;
    update awa.cron_schedules as schedule set waiting_slot = null where schedule.name = p_name;
    delete from awa.cron_ticks as tick where tick.schedule = p_name and tick.slot = fire_waiting.slot and tick.outcome = 'waiting';
    return query select fire_waiting.slot, fired.outcome, fired.job_id, fired.error
                   from awa.fire_slot(p_name, fire_waiting.slot, 'fired') as fired
                  where fired.outcome is not null;
end
$$;

-- Enqueue the job of a schedule now, whatever its times are, whether it is paused, and whatever an earlier job does.
--   name  its name
-- Answers the job and the outcome of awa.enqueue; nothing where there is no such schedule. Raises what awa.enqueue raises.
-- Index: primary keys. Locks the row of the schedule, then as awa.enqueue.
create or replace function awa.run_schedule(name text)
    returns table (job_id bigint, outcome text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '1s'
as $$
#variable_conflict use_column
declare
    fired record;
begin
    perform 1 from awa.cron_schedules as schedule where schedule.name = run_schedule.name for update;
    if not found then
        return;
    end if;
    fired := awa.fire_slot(run_schedule.name, clock_timestamp(), 'manual');
    job_id := fired.job_id;
    outcome := case fired.outcome when 'manual' then 'inserted' else fired.outcome end;
    return next;
end
$$;

-- Enqueue the job of a schedule for one of its times, unless that time was handled before, and note it. The caller has the row
-- of the schedule locked.
--   p_name, p_slot  the schedule and the time
--   p_how           fired or manual; a manual run minds no earlier job, and raises what awa.enqueue_many raises
-- Answers what is noted; outcome is null where the time was handled before. Index: primary keys. Locks as awa.enqueue_many.
create or replace function awa.fire_slot(
    p_name text,
    p_slot timestamptz,
    p_how text,
    out outcome text,
    out job_id bigint,
    out error text
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    held awa.cron_schedules;
    code text;
    minded boolean;
begin
    insert into awa.cron_ticks as tick (schedule, slot, outcome)
    values (p_name, p_slot, p_how)
        on conflict (schedule, slot) do nothing;
    if not found then
        return;
    end if;
    select schedule.* into held from awa.cron_schedules as schedule where schedule.name = p_name;
    if p_how = 'fired' and held.overlap <> 'allow' and not awa.has_ended(held.last_job_id) then
        outcome := case held.overlap when 'skip' then 'overlap' else 'waiting' end;
        job_id := held.last_job_id;
        -- A newer time takes the place of the one that waits.
        perform awa.leave_waiting(p_name);
    else
        -- One that has waited until now is not made up beside a newer one.
        if p_how = 'fired' then
            perform awa.leave_waiting(p_name);
        end if;
        begin
            -- The time is what the job is due by, so its handler knows for which it runs.
            select enqueued.job_id,
                   case enqueued.outcome when 'inserted' then p_how when 'replaced' then p_how else 'duplicate' end
              into job_id, outcome
              from awa.enqueue_many(jsonb_build_array(
                       held.job || jsonb_build_object('run_at', least(p_slot, now()),
                                                      'metadata', awa.with_slot(held.job -> 'metadata', p_name, p_slot)))) as enqueued;
        exception when others then
            get stacked diagnostics code = returned_sqlstate, error = message_text;
            -- Who asks by hand is to hear it as it is.
            if awa.is_passing(code) or p_how = 'manual' then
                raise;
            end if;
            outcome := case code when 'AWA02' then 'duplicate' else 'refused' end;
        end;
    end if;
    -- Later times go on minding a job that runs while another is asked for by hand.
    minded := outcome = 'fired' or (outcome = 'manual' and coalesce(awa.has_ended(held.last_job_id), true));
    update awa.cron_ticks as tick
       set outcome = fire_slot.outcome,
           job_id = fire_slot.job_id,
           error = awa.error_text(fire_slot.error)
     where tick.schedule = p_name
       and tick.slot = p_slot;
    update awa.cron_schedules as schedule
       set last_slot = p_slot,
           last_outcome = fire_slot.outcome,
           last_job_id = case when minded then fire_slot.job_id else held.last_job_id end,
           waiting_slot = case when fire_slot.outcome = 'waiting' then p_slot else schedule.waiting_slot end
     where schedule.name = p_name;
end
$$;

-- The metadata of the job of a schedule at one of its times.
--   p_metadata       as the schedule has it, or null
--   p_name, p_slot   the schedule and the time
-- Reads no table.
create or replace function awa.with_slot(p_metadata jsonb, p_name text, p_slot timestamptz) returns jsonb
    language sql stable
    set search_path = pg_catalog, pg_temp
return coalesce(nullif(p_metadata, 'null'), '{}')
       || jsonb_build_object('$schedule', jsonb_build_object('name', p_name, 'slot', p_slot));
