-- What a JSON value is, in words for an error.
-- Reads no table.
create or replace function awa.json_kind(p_value jsonb)
    returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp
return (case jsonb_typeof(p_value)
    when 'null' then 'null'
    when 'object' then 'an object'
    when 'array' then 'an array'
    else 'a ' || jsonb_typeof(p_value)
end);
