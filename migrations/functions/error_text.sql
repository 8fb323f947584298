-- A text as it is kept among a job's errors: at most 16 KiB, cut between characters and marked where it was longer.
-- Reads and locks nothing.
create or replace function awa.error_text(p_text text) returns text
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    bytes_max constant integer := 16 * 1024;
    mark      constant text := '… (cut)';
    bytes     bytea;
    kept      integer;
begin
    bytes := convert_to(p_text, 'UTF8');
    if length(bytes) <= bytes_max then
        return p_text;
    end if;
    kept := bytes_max - octet_length(mark);
    -- The first byte that goes must be the first of its character.
    while (get_byte(bytes, kept) & 192) = 128 loop
        kept := kept - 1;
    end loop;
    return convert_from(substring(bytes for kept), 'UTF8') || mark;
end
$$;
