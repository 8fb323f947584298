-- Give back doze locks that this connection holds.
--   $1 gates, as try_doze.sql answered them
-- Answers for each whether it was held.
select pg_catalog.pg_advisory_unlock(1096237387, gate.id) as "held!"
  from pg_catalog.unnest($1::integer[]) as gate (id)
