-- Refuse a span of time that a setting cannot have, in the words that Rust uses.
--   p_field          the setting, as errors call it
--   p_value          its value; null is not looked at
--   p_least, p_most  what it may be; p_allowed says the same in words
-- Reads and locks nothing.
create or replace function awa.check_span(
    p_field text,
    p_value interval,
    p_least interval,
    p_most interval,
    p_allowed text
)
    returns void
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- By their seconds: as intervals compare, a year has 360 days.
    if extract(epoch from p_value) not between extract(epoch from p_least) and extract(epoch from p_most) then
        raise exception '% is %; it must be %', p_field, p_value, p_allowed using errcode = 'invalid_parameter_value';
    end if;
end
$$;
