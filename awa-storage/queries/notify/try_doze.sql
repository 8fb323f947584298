-- Take the doze locks of queues on the connection that listens, without waiting. Run it on that connection only.
-- Everything is qualified: the path of the connection is not ours.
--   $1 queues; none of whose doze locks this connection may hold already: such a lock counts
-- Answers the gate of each queue and whether this connection now holds its doze lock. See awa.wake for the other side.
with named as materialized (
    select asked.queue, pg_catalog.hashtext(asked.queue) as id
      from pg_catalog.unnest($1::text[]) as asked (queue)
),
tried as materialized (
    select gate.id, pg_catalog.pg_try_advisory_lock(1096237387, gate.id) as held
      from (select distinct named.id from named) as gate
)
select named.queue as "queue!", tried.id as "id!", tried.held as "held!"
  from named
  join tried on tried.id operator(pg_catalog.=) named.id
