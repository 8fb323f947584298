-- Do not wait for the time of jobs: they are available at once. run_at keeps the time at which they would have been due.
--   job_id, job_ids  one job, or many in any order
-- Answers for each job, in the order given, the outcome, its state now, and the holder where there is one:
--   applied    it was scheduled or retryable, and is available; it gets one more attempt even if it has had all
--   unchanged  it is available
--   refused    it is in any other state
--   duplicate  another job, the holder, has a unique key that it needs only now
--   busy       somebody has the job or its unique key locked for more than a second; nothing was changed, try again
--   not_found  there is no such job
-- Locks and indexes: see awa.operate.
create or replace function awa.run_now(
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
      from awa.operate('run_now', array[job_id], null) as answer;
end
$$;

create or replace function awa.run_now_many(job_ids bigint[])
    returns table (job_id bigint, outcome text, state awa.job_state, holder bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query select answer.* from awa.operate('run_now', job_ids, null) as answer;
end
$$;
