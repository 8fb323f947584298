-- Refuse bad input with this message.
-- Raises 22023 (invalid_parameter_value). Reads no table.
create or replace function awa.refuse_with(p_message text)
    returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $refuse_with$
begin
    raise exception '%', p_message using errcode = 'invalid_parameter_value';
end
$refuse_with$;
