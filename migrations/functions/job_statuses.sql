-- What became of many jobs: one row for each that exists, whatever the order and however often an id is given.
--   p_ids   the jobs; without ids nothing is answered
-- Answers, beside columns of the job:
--   error   the newest of its errors
--   paused  its queue is paused: while that is so it is not claimed
-- Index: the primary keys. Locks nothing.
create or replace function awa.job_statuses(p_ids bigint[])
    returns table (
        job_id bigint,
        kind text,
        queue text,
        state awa.job_state,
        priority smallint,
        attempt smallint,
        max_attempts smallint,
        run_at timestamptz,
        created_at timestamptz,
        attempted_at timestamptz,
        finalized_at timestamptz,
        progress jsonb,
        result jsonb,
        error text,
        paused boolean
    )
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select job.id, job.kind, job.queue, job.state, job.priority, job.attempt, job.max_attempts, job.run_at,
           job.created_at, job.attempted_at, job.finalized_at, job.progress, job.result,
           job.errors -> -1 ->> 'error',
           exists (select from awa.queues as setting where setting.name = job.queue and setting.paused)
      from (select distinct given.id from unnest(p_ids) as given (id)) as wanted
     cross join lateral (select found.* from awa.jobs as found where found.id = wanted.id offset 0) as job;
end
$$;
