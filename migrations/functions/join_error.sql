-- An error text and what followed from it, within the limit of one recorded text.
--   p_error  what went wrong, or null
--   p_then   what followed from it, or null; kept whole
-- The error text is cut where both together are too long: to a quarter of the bytes that are left, since a character may take
-- four. Reads and locks nothing.
create or replace function awa.join_error(p_error text, p_then text) returns text
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    bytes_max constant integer := 16384;
begin
    if p_error is null or p_then is null then
        return coalesce(p_error, p_then);
    end if;
    if octet_length(p_error) + octet_length(p_then) + 2 > bytes_max then
        p_error := left(p_error, (bytes_max - 2 - octet_length(p_then)) / 4);
    end if;
    return p_error || '; ' || p_then;
end
$$;
