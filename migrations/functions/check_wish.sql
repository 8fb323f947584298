-- Refuse a change of state that the view does not offer.
--   p_id     the job, for the error; p_state: the state it is to have
--   p_more   other columns are to change with it
-- Raises 22023 with a hint. Reads no table.
create or replace function awa.check_wish(p_id bigint, p_state awa.job_state, p_more boolean) returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_state is null or p_state not in ('cancelled', 'available') then
        raise exception 'state of job % cannot be set to %', p_id, coalesce(p_state::text, 'null')
            using errcode = 'invalid_parameter_value',
                  hint = 'Set it to cancelled, or to available; scheduled follows from run_at, and the rest is up to workers.';
    elsif p_more then
        raise exception 'state of job % cannot be set along with other columns', p_id
            using errcode = 'invalid_parameter_value',
                  hint = 'Use one statement for the state and one for the rest. Setting run_at alone moves a job as it needs.';
    end if;
end
$$;
