-- Read a time from JSON: ISO 8601 with an offset, so that the time zone of the session does not matter.
--   p_text   the text; null: none given
--   p_field  its name in an error
-- Answers the time, or null. Raises 22023. Reads no table.
create or replace function awa.read_time(p_text text, p_field text)
    returns timestamptz
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $read_time$
declare
    pattern constant text :=
        $regex$^[+]?\d{4,6}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.]\d{1,9})?)? ?(Z|z|[+-]\d\d(:?\d\d)?)$$regex$;
begin
    if p_text is null then
        return null;
    elsif p_text ~ pattern then
        begin
            return ltrim(p_text, '+')::timestamptz;
        exception when data_exception then
            null;
        end;
    end if;
    perform awa.refuse(p_field, awa.excerpt(to_json(p_text)::text), 'a time with an offset like "2026-01-31T12:00:00Z"');
end
$read_time$;
