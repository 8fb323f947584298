-- Check what an UPDATE of the view makes of a job, as awa.edit does: what it changes, in the words of awa.enqueue.
--   p_job, p_wanted  the job as it is and as it is to be
-- Raises 22023 for a value that a job cannot have, 55000 for a column that does not change in its state. What stays as it is
-- is not looked at: an odd row can be edited too. Reads no table.
create or replace function awa.check_edit(p_job awa.jobs_hot, p_wanted awa.jobs_hot) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_job.state not in ('scheduled', 'available', 'retryable')
        and (p_wanted.queue, p_wanted.priority, p_wanted.run_at, p_wanted.args, p_wanted.timeout)
            is distinct from (p_job.queue, p_job.priority, p_job.run_at, p_job.args, p_job.timeout)
    then
        raise exception 'job % is %; only its max_attempts, tags and metadata can be changed', p_job.id, p_job.state
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform awa.check_job(
        'any',
        case when p_wanted.args is distinct from p_job.args then p_wanted.args else '{}' end,
        case when p_wanted.queue <> p_job.queue then p_wanted.queue else 'any' end,
        case when p_wanted.priority <> p_job.priority then p_wanted.priority else 1 end,
        case when p_wanted.run_at <> p_job.run_at then p_wanted.run_at end,
        null,
        case when p_wanted.max_attempts <> p_job.max_attempts then p_wanted.max_attempts else 1 end,
        case when p_wanted.timeout is distinct from p_job.timeout then extract(epoch from p_wanted.timeout) end,
        case when p_wanted.tags is distinct from p_job.tags then p_wanted.tags end,
        case when p_wanted.metadata is distinct from p_job.metadata then p_wanted.metadata end,
        null);
end
$$;
