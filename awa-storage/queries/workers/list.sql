-- Every process that has a row, oldest first. Reads the table through; locks nothing.
select id as "id!",
       name as "name!",
       host as "host!",
       pid as "pid!",
       version as "version!",
       queues as "queues!",
       kinds as "kinds!",
       started_at as "started_at!",
       last_seen_at as "last_seen_at!",
       silent_for as "silent_for!"
  from awa.list_workers()
