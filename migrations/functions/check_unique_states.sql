-- Check a mask of states in which a job holds its unique key. It has at least one, and available where it has running: a
-- claim would have to take the key else, and of two jobs with one key in one claim the second would fail it for all.
--   p_bits   the states as bits (awa.state_bit)
--   p_field  its name in an error
-- Raises 22023; answers nothing. Reads no table.
create or replace function awa.check_unique_states(p_bits integer, p_field text)
    returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $check_unique_states$
begin
    if p_bits = 0 then
        perform awa.refuse(p_field, 'empty', 'at least one state');
    elsif p_bits not between 1 and 255 then
        perform awa.refuse(p_field, p_bits::text, 'bits of states, 1 to 255');
    elsif p_bits & 4 <> 0 and p_bits & 2 = 0 then
        perform awa.refuse(
            p_field,
            (select jsonb_agg(state order by state)::text
               from unnest(enum_range(null::awa.job_state)) as state
              where p_bits & awa.state_bit(state) <> 0),
            'with available where it has running');
    end if;
end
$check_unique_states$;
