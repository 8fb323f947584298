-- All schedules by name, or schedule $1 alone. Index: none, or the primary key. Locks nothing.
select schedule.name,
       schedule.expression,
       schedule.timezone,
       schedule.job::text as "job!",
       schedule.missed,
       schedule.catch_up_max,
       schedule.overlap,
       schedule.owner,
       schedule.created_at,
       schedule.changed_at,
       schedule.paused_at,
       schedule.next_at,
       schedule.fault,
       schedule.waiting_slot,
       schedule.last_slot,
       schedule.last_job_id,
       schedule.last_outcome
  from awa.cron_schedules as schedule
 where schedule.name = $1
    or $1 is null
 order by schedule.name
