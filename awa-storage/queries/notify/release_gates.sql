-- Give back wake-up gates that this connection holds.
--   $1 gates, as try_gates.sql answered them
-- Answers for each whether it was held.
select pg_catalog.pg_advisory_unlock(1096237385, gate.id) as "held!"
  from pg_catalog.unnest($1::integer[]) as gate (id)
