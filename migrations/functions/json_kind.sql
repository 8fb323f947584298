-- What a JSON value is, in words for an error.
-- Reads no table; runs under its caller's search path.
create or replace function awa.json_kind(p_value jsonb)
    returns text
    language sql immutable
return (case jsonb_typeof(p_value)
    when 'null' then 'null'
    when 'object' then 'an object'
    when 'array' then 'an array'
    else 'a ' || jsonb_typeof(p_value)
end);
