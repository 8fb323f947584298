-- A value as an error repeats it: its first 64 characters.
-- Reads no table.
create or replace function awa.excerpt(p_text text)
    returns text
    language sql immutable
    set search_path = pg_catalog, pg_temp
return case when length(p_text) > 64 then left(p_text, 64) || '…' else p_text end;
