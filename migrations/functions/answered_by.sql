-- A job as the answer to its callback leaves it, or the lack of one. What is not named here stays: run_lease above all, and
-- progress unless the job has completed.
--   p_answer    complete, fail, resume or timeout
--   p_job       the job as it is
--   p_payload   the result of a job that completes
--   p_error     why it failed, or that nobody answered; null: nothing is noted
--   p_conflict  null, or why it cannot have the unique key that its next state needs: a job that would go on ends cancelled
--               then, and it gives its key up where its last state would need it
-- Reads and locks nothing.
create or replace function awa.answered_by(
    p_answer text,
    p_job awa.jobs_hot,
    p_payload jsonb,
    p_error text,
    p_conflict text
)
    returns awa.jobs_hot
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    noted record;
begin
    if p_error is not null or p_conflict is not null then
        noted := awa.append_error(p_job.errors, p_job.errors_dropped, jsonb_build_object(
            'at', now(), 'attempt', p_job.attempt, 'lease', p_job.run_lease, 'worker', p_job.attempted_by,
            'source', case when p_answer = 'timeout' then 'rescue' else 'callback' end,
            'error', awa.join_error(p_error, 'it cannot have its unique key: ' || p_conflict)));
        p_job.errors := noted.errors;
        p_job.errors_dropped := noted.dropped;
    end if;
    p_job.state := case p_answer
        when 'complete' then 'completed'
        when 'fail' then 'failed'
        when 'resume' then 'available'
        when 'timeout' then case when p_job.attempt < p_job.max_attempts then 'retryable' else 'failed' end
    end;
    if p_conflict is not null then
        if p_job.state in ('available', 'retryable') then
            p_job.state := 'cancelled';
        end if;
        if (p_job.unique_states & awa.state_bit(p_job.state)) <> 0 then
            p_job.unique_key := null;
            p_job.unique_states := null;
        end if;
    end if;
    case p_job.state
        when 'completed' then
            p_job.progress := null;
            p_job.result := p_payload;
        when 'available' then
            p_job.attempt := greatest(p_job.attempt - 1, 0);
        when 'retryable' then
            p_job.run_at := now() + awa.backoff(p_job.attempt);
        else
            null;
    end case;
    p_job.finalized_at := case when p_job.state in ('completed', 'failed', 'cancelled') then now() end;
    p_job.attempted_by := null;
    p_job.heartbeat_at := null;
    p_job.deadline_at := null;
    return p_job;
end
$$;
