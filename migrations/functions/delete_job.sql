-- Remove jobs for good, in whatever state, and free their unique keys. The handler of one that runs is told at once,
-- and whatever it still returns is ignored.
--   job_id, job_ids  one job, or many in any order
-- Answers for each job, in the order given, the outcome, the state it was in, and no holder:
--   applied    it is gone
--   busy       somebody has it locked for more than a second; nothing was changed, try again
--   not_found  there is no such job
-- Locks and indexes: see awa.operate.
create or replace function awa.delete_job(
    inout job_id bigint,
    out outcome text,
    out state awa.job_state,
    out holder bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    select answer.job_id, answer.outcome, answer.state, answer.holder
      into job_id, outcome, state, holder
      from awa.operate('delete', array[job_id], null) as answer;
end
$$;

create or replace function awa.delete_jobs(job_ids bigint[])
    returns table (job_id bigint, outcome text, state awa.job_state, holder bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query select answer.* from awa.operate('delete', job_ids, null) as answer;
end
$$;
