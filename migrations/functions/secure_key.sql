-- Make sure of the unique key of one job that the caller has locked and is about to bring into another state.
--   p_job    the job; p_state: the state it is to have
-- Answers its own id where that may be done, that of the job which holds a key it needs only now, or null where somebody is
-- in the way for longer than a second.
-- Index: job_unique_claims_pkey. Locks the unique claim.
create or replace function awa.secure_key(p_job awa.jobs_hot, p_state awa.job_state) returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    claim constant text := awa.claim_of(p_job.unique_key, p_job.unique_states, p_job.state, p_state);
begin
    if claim = 'none' then
        return p_job.id;
    end if;
    return (awa.secure_keys(array[p_job.id], array[p_job.unique_key], array[claim]))[1];
end
$$;

-- What a change of state does to a job's unique key: none; held (it has it now); wanted (it needs it only now).
--   p_key, p_states  its key and mask, or null; p_from, p_to: the states, the latter null for one that goes
-- Reads and locks nothing.
create or replace function awa.claim_of(p_key bytea, p_states smallint, p_from awa.job_state, p_to awa.job_state) returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when p_key is null then 'none'
        when (p_states & awa.state_bit(p_from)) <> 0 then 'held'
        when (p_states & awa.state_bit(p_to)) <> 0 then 'wanted'
        else 'none'
    end;
end
$$;
