-- What an operator's wish comes to for a job in this state: applied, unchanged (it is so already) or refused.
--   p_action  cancel, retry, run_now or delete
-- Reads and locks nothing. The arrows are those of EDGES in awa-model; a test compares all of them.
create or replace function awa.judge(p_action text, p_state awa.job_state) returns text
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when p_action = 'delete' then 'applied'
        when p_action = 'cancel' and p_state = 'cancelled' then 'unchanged'
        when p_action = 'cancel' and p_state not in ('completed', 'failed') then 'applied'
        when p_action in ('retry', 'run_now') and p_state = 'available' then 'unchanged'
        when p_action = 'retry' and p_state in ('failed', 'cancelled') then 'applied'
        when p_action = 'run_now' and p_state in ('scheduled', 'retryable') then 'applied'
        else 'refused'
    end;
end
$$;
