-- Take the wake-up gates of queues on the connection that listens, without waiting. Run it on that connection only.
-- Everything is qualified: the path of the connection is not ours.
--   $1 queues; none of whose gates this connection may hold already: such a lock counts
-- Answers the gate of each queue and who has it: 'held' (this connection, now), 'writer' (a producer whose transaction is
-- open), 'sleeper' (another idle process). See awa.wake for the other side.
with named as materialized (
    select asked.queue, pg_catalog.hashtext(asked.queue) as id
      from pg_catalog.unnest($1::text[]) as asked (queue)
),
tried as materialized (
    select gate.id,
           case
               when pg_catalog.pg_try_advisory_lock(1096237385, gate.id) then 'held'
               -- Writers share the lock among themselves, a sleeper with nobody: trying it shared tells them apart.
               when pg_catalog.pg_try_advisory_lock_shared(1096237385, gate.id) then 'writer'
               else 'sleeper'
           end as holder
      from (select distinct named.id from named) as gate
),
settled as materialized (
    select tried.id,
           tried.holder,
           case when tried.holder operator(pg_catalog.=) 'writer' then pg_catalog.pg_advisory_unlock_shared(1096237385, tried.id) end as given_back
      from tried
)
select named.queue as "queue!", settled.id as "id!", settled.holder as "holder!", settled.given_back
  from named
  join settled on settled.id operator(pg_catalog.=) named.id
