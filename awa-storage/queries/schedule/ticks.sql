-- The last $2 times of schedule $1 that were handled, the newest first. Index: the primary key, backwards. Locks nothing.
select tick.slot,
       tick.outcome,
       tick.job_id,
       tick.error,
       tick.missed_since,
       tick.handled_at
  from awa.cron_ticks as tick
 where tick.schedule = $1
 order by tick.slot desc
 limit $2
