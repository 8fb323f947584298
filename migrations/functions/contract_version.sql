-- The version of the functions that docs/producers.md describes. It rises when a call that worked would no longer do so.
-- Reads no table.
create or replace function awa.contract_version()
    returns integer
    language sql immutable parallel safe
    security definer
    set search_path = pg_catalog, pg_temp
return 1;
