-- Give ended jobs another life: available at once, with all their attempts; errors, progress and run_lease stay.
--   job_id, job_ids  one job, or many in any order
-- Answers for each job, in the order given, the outcome, its state now, and the holder where there is one:
--   applied    it was failed or cancelled, and is available
--   unchanged  it is available
--   refused    it is in any other state
--   duplicate  another job, the holder, has its unique key; of two jobs of one call with one key the first gets it
--   busy       somebody has the job or its unique key locked for more than a second; nothing was changed, try again
--   not_found  there is no such job
-- Locks and indexes: see awa.operate.
create or replace function awa.retry(
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
      from awa.operate('retry', array[job_id], null) as answer;
end
$$;

create or replace function awa.retry_many(job_ids bigint[])
    returns table (job_id bigint, outcome text, state awa.job_state, holder bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query select answer.* from awa.operate('retry', job_ids, null) as answer;
end
$$;
