-- What is wrong with the name of a kind, queue, tag or field, in the words of Rust's InvalidName.
--   p_what  what the name is for: the first word of the answer
--   p_name  the name; null is one that is absent
-- Answers null for a name of 1 to 128 bytes without control characters. Reads no table.
create or replace function awa.name_fault(p_what text, p_name text)
    returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $name_fault$
declare
    -- U+0000 cannot be in a text.
    controls constant text := $regex$[\u0001-\u001f\u007f-\u009f]$regex$;
    size     constant integer := octet_length(p_name);
begin
    if size between 1 and 128 and p_name collate "C" !~ controls then
        return null;
    end if;
    if p_name is null then
        return format('%s is absent; it must have 1 to 128 bytes', p_what);
    elsif size = 0 then
        return format('%s is empty; it must have 1 to 128 bytes', p_what);
    elsif size > 128 then
        return format('%s `%s…` has %s bytes; it must have 1 to 128',
                      p_what, left(regexp_replace(p_name collate "C", controls, '', 'g'), 32), size);
    end if;
    return format('%s %s has the control character U+%s at byte %s; none are allowed',
                  p_what,
                  to_json(p_name),
                  upper(lpad(to_hex(ascii(substring(p_name collate "C" from controls))), 4, '0')),
                  octet_length(regexp_replace(p_name collate "C", controls || '.*$', '')));
end
$name_fault$;
