-- Refuse bad input, in the words of Rust's InvalidJob: `priority is 9; it must be 1 to 4`.
--   p_field, p_value, p_allowed  the field, what it holds, what it may hold
-- Raises 22023 (invalid_parameter_value). Reads no table.
create or replace function awa.refuse(p_field text, p_value text, p_allowed text)
    returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $refuse$
begin
    perform awa.refuse_with(format('%s is %s; it must be %s', p_field, coalesce(p_value, 'absent'), p_allowed));
end
$refuse$;
