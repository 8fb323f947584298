-- A job as an operator's wish leaves it. What is not named here stays: run_lease above all, and progress, errors, tags.
--   p_action  cancel, retry or run_now
--   p_job     the job as it is
--   p_reason  noted among the errors of a job that is cancelled; null: nothing is noted
-- Reads and locks nothing.
create or replace function awa.changed_by(p_action text, p_job awa.jobs_hot, p_reason text) returns awa.jobs_hot
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    noted record;
begin
    case p_action
        when 'cancel' then
            noted := awa.append_error(p_job.errors, p_job.errors_dropped,
                case when p_reason is not null then jsonb_build_object(
                    'at', now(), 'attempt', p_job.attempt, 'lease', p_job.run_lease, 'worker', p_job.attempted_by,
                    'source', 'operator', 'error', awa.error_text(p_reason)) end);
            p_job.errors := noted.errors;
            p_job.errors_dropped := noted.dropped;
            p_job.state := 'cancelled';
            p_job.finalized_at := now();
            p_job.attempted_by := null;
            p_job.heartbeat_at := null;
            p_job.deadline_at := null;
        when 'retry' then
            p_job.state := 'available';
            p_job.attempt := 0;
            p_job.run_at := now();
            p_job.finalized_at := null;
        when 'run_now' then
            p_job.state := 'available';
    end case;
    return p_job;
end
$$;
