-- Enqueue a job that is given as a row of the view, every column but its key checked.
--   p_job  the row
-- Answers its id, that of the job which it has replaced, or null where its key is held and the policy is skip.
-- Raises 22023 for half a key or an impossible one, AWA02 under the policy error, AWA01 where the key never settles.
-- Index and locks: as awa.enqueue_one; a job that is to be replaced is locked.
create or replace function awa.insert_job(p_job awa.jobs) returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    rounds_max constant integer := 100;
    policy     constant text := awa.view_policy();
    answer     bigint;
    holder     awa.jobs_hot;
    wanted     awa.jobs_hot;
begin
    if (p_job.unique_key is null) <> (p_job.unique_states is null) then
        perform awa.refuse('unique_key', 'given without unique_states or the other way round', 'given with them or not at all');
    elsif length(p_job.unique_key) <> 16 then
        perform awa.refuse('unique_key', format('%s bytes', length(p_job.unique_key)), '16 bytes, as awa.unique_key makes them');
    end if;
    if p_job.unique_states is not null then
        perform awa.check_unique_states(p_job.unique_states, 'unique_states');
    end if;
    for round in 1..rounds_max loop
        answer := awa.enqueue_one(p_job.kind, p_job.queue, p_job.priority, p_job.args, p_job.run_at, p_job.max_attempts,
                                  p_job.timeout, p_job.tags, p_job.metadata, p_job.trace_context, p_job.unique_key,
                                  p_job.unique_states);
        if answer > 0 then
            return answer;
        end if;
        perform awa.refuse_duplicate(-answer);
        -- A lock on a running job would keep its worker from settling it.
        if policy <> 'replace' or awa.state_of(-answer) not in ('scheduled', 'available', 'retryable') then
            return null;
        end if;
        begin
            select locked.* into holder from awa.lock_jobs(array[-answer]) as locked;
            if holder.unique_key = p_job.unique_key and holder.state in ('scheduled', 'available', 'retryable') then
                wanted := holder;
                wanted.args := p_job.args;
                wanted.run_at := p_job.run_at;
                if (awa.change_job(holder, wanted)).outcome in ('applied', 'unchanged') then
                    return holder.id;
                end if;
            end if;
            -- It has been claimed, has ended or is gone. Its lock is given back, since the next may have a lower id.
            raise exception 'spoilt' using errcode = 'AWA00';
        exception when sqlstate 'AWA00' then
            null;
        end;
    end loop;
    raise exception 'a unique key changed hands % times while it was looked up', rounds_max
        using errcode = 'AWA01', schema = 'awa', table = 'job_unique_claims';
end
$$;
