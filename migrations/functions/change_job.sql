-- Give a job that the caller has locked other values: the end of awa.edit and of an UPDATE through the view.
--   p_job     the row as awa.lock_jobs answered it
--   p_wanted  the same with what shall be different; of a scheduled or available one whose run_at differs, the state follows
-- Answers as awa.edit does: applied, unchanged, duplicate with the holder, or busy.
-- Index: the primary keys. Locks the unique claim of the job if its state changes.
create or replace function awa.change_job(
    p_job awa.jobs_hot,
    p_wanted awa.jobs_hot,
    out outcome text,
    out state awa.job_state,
    out holder bigint
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_job.state in ('scheduled', 'available') and p_wanted.run_at <> p_job.run_at then
        p_wanted.state := case when p_wanted.run_at <= now() then 'available' else 'scheduled' end;
    end if;
    state := p_job.state;
    if p_wanted is not distinct from p_job then
        outcome := 'unchanged';
        return;
    end if;
    holder := awa.secure_key(p_job, p_wanted.state);
    if holder is null then
        outcome := 'busy';
    elsif holder <> p_job.id then
        outcome := 'duplicate';
        return;
    else
        perform awa.place_job(p_job, p_wanted);
        outcome := 'applied';
        state := p_wanted.state;
    end if;
    holder := null;
end
$$;
