-- Read the states in which a job holds its unique key.
--   p_states  a JSON array of names of states; null: none given
--   p_field   its name in an error
-- Answers the states as bits, or null. Raises 22023. Reads no table.
create or replace function awa.read_unique_states(p_states jsonb, p_field text)
    returns smallint
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $read_unique_states$
declare
    known constant text[] := enum_range(null::awa.job_state)::text[];
    bits  integer;
begin
    if p_states is null then
        return null;
    elsif jsonb_typeof(p_states) <> 'array'
            or exists (select from jsonb_array_elements(p_states) as listed (state)
                        where jsonb_typeof(listed.state) <> 'string' or listed.state #>> '{}' <> all (known)) then
        perform awa.refuse(p_field, awa.excerpt(p_states::text),
                           'an array of ' || array_to_string(known[:7], ', ') || ' and ' || known[8]);
    end if;
    select coalesce(bit_or(awa.state_bit(listed.state::awa.job_state)), 0) into bits
      from jsonb_array_elements_text(p_states) as listed (state);
    perform awa.check_unique_states(bits, p_field);
    return bits;
end
$read_unique_states$;
