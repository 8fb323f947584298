-- Every process that has a row, oldest first. Reads the table through; locks nothing.
select id,
       name,
       host,
       pid,
       version,
       queues,
       kinds,
       started_at,
       last_seen_at,
       extract(epoch from now() - last_seen_at)::double precision as "silent_for!"
  from awa.workers
 order by started_at, id
