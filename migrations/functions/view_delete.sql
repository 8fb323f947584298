-- DELETE from the view awa.jobs: as awa.delete_job, but only of the job as the statement saw it. One whose state or run_lease
-- is another by the time it is locked stays, and its row is not counted.
-- Index: the primary keys. Locks the row as long as lock_timeout allows, then its unique claim.
create or replace function awa.view_delete() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    job awa.jobs_hot;
begin
    select locked.* into job from awa.lock_jobs(array[old.id]) as locked;
    if not (job.id is not null and job.state = old.state and job.run_lease = old.run_lease) then
        return null;
    end if;
    perform awa.remove_job(job);
    return old;
end
$$;

create or replace trigger jobs_delete instead of delete on awa.jobs
    for each row execute function awa.view_delete();

comment on trigger jobs_delete on awa.jobs is 'Removes a job as the caller saw it, or not at all.';
