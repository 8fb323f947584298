-- Read a span of time from JSON: a number of seconds, or a text that PostgreSQL takes for an interval ('90 seconds'). A day
-- of an interval has 24 hours, a month 30 days.
--   p_value  the JSON value; null or JSON null: none given
--   p_field  its name in an error
-- Answers seconds, or null. Raises 22023. Reads no table.
create or replace function awa.read_seconds(p_value jsonb, p_field text)
    returns numeric
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $read_seconds$
begin
    if jsonb_typeof(p_value) = 'number' then
        return p_value::numeric;
    elsif jsonb_typeof(p_value) = 'string' then
        begin
            return extract(epoch from (p_value #>> '{}')::interval);
        exception when data_exception then
            null;
        end;
    elsif p_value is null or jsonb_typeof(p_value) = 'null' then
        return null;
    end if;
    perform awa.refuse(p_field, awa.excerpt(p_value::text), 'a number of seconds or an interval like "90 seconds"');
end
$read_seconds$;
