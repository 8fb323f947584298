-- What is wrong with a JSON document, in the words of Rust's InvalidJson.
--   p_root       what the document is: the first word of the answer
--   p_value      the document
--   p_bytes_max  how long it may be as compact JSON
-- Answers null for one that nests at most 100 levels and is short enough. Reads no table.
create or replace function awa.json_fault(p_root text, p_value jsonb, p_bytes_max integer)
    returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $json_fault$
declare
    -- jsonb writes a space after each comma and colon, so its text is longer than compact JSON, by less than twice.
    exact_max constant integer := 16777216;
    printed   constant text := p_value::text;
    size      integer := octet_length(printed);
begin
    -- Each level takes two brackets.
    if size > 200
        and jsonb_path_exists(p_value, 'strict $.**{100} ? (@.type() == "object" || @.type() == "array")')
    then
        return format('%s nests deeper than 100 levels', p_root);
    end if;
    if size <= p_bytes_max then
        return null;
    end if;
    if size <= exact_max then
        -- Outside of strings jsonb writes no other spaces.
        size := size - (
            select length(bare.text) - length(replace(bare.text, ' ', ''))
              from (select regexp_replace(printed, $regex$"(?:[^"\\]|\\.)*"$regex$, '', 'g')) as bare (text)
        );
    end if;
    if size > p_bytes_max then
        return format('%s has %s bytes as JSON; at most %s are allowed', p_root, size, p_bytes_max);
    end if;
    return null;
end
$json_fault$;
