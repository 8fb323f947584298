-- Will the same statement perhaps succeed a moment later? Then the row is not to blame and is left for the next pass.
--   p_sqlstate  the code of the error
-- Connections (08), rollbacks and deadlocks (40), resources (53), locks (55), operator intervention (57), system (58).
create or replace function awa.is_passing(p_sqlstate text) returns boolean
    language sql immutable parallel safe
    set search_path = pg_catalog, pg_temp
return left(p_sqlstate, 2) in ('08', '40', '53', '55', '57', '58');
