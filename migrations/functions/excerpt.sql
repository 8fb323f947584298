-- A value as an error repeats it: its first 64 characters.
-- Reads no table; runs under its caller's search path.
create or replace function awa.excerpt(p_text text)
    returns text
    language sql immutable
return case when length(p_text) > 64 then left(p_text, 64) || '…' else p_text end;
