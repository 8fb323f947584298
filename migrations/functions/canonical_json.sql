-- The text of a jsonb value that is the same for equal values: jsonb's own (keys sorted, last of equal keys, no spaces),
-- less the trailing zeros that it keeps of 1.0 and 2.50, since languages differ in whether they write them.
--   p_value  the value
-- Reads no table.
create or replace function awa.canonical_json(p_value jsonb)
    returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $canonical_json$
declare
    printed text := p_value::text;
begin
    if position('.' in printed) = 0 then
        return printed;
    end if;
    -- Strings are matched as a whole and put back, so that no digit inside one is looked at. jsonb prints no exponents.
    return regexp_replace(
        printed,
        $re$("(?:[^"\\]|\\.)*")|(-?[0-9]+)(?:\.0+(?![0-9])|(\.[0-9]*[1-9])0+(?![0-9]))$re$,
        $re$\1\2\3$re$,
        'g');
end
$canonical_json$;
