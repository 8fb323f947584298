-- Call jobs off. A handler that runs is told at once, and whatever it still returns is ignored; progress stays.
--   job_id, job_ids  one job, or many in any order
--   reason           noted among the job's errors; null: nothing is noted
-- Answers for each job, in the order given, the outcome, its state now, and no holder:
--   applied    it is cancelled
--   unchanged  it was cancelled before
--   refused    it has completed or failed
--   busy       somebody has it locked for more than a second; nothing was changed, try again
--   not_found  there is no such job
-- Locks and indexes: see awa.operate.
create or replace function awa.cancel(
    inout job_id bigint,
    reason text default null,
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
      from awa.operate('cancel', array[job_id], reason) as answer;
end
$$;

create or replace function awa.cancel_many(job_ids bigint[], reason text default null)
    returns table (job_id bigint, outcome text, state awa.job_state, holder bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return query select answer.* from awa.operate('cancel', job_ids, reason) as answer;
end
$$;
