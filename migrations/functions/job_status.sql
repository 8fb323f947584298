-- What became of a job: one row, or none where there is no such job any more, or not yet.
--   error   the newest of its errors
--   paused  its queue is paused: while that is so it is not claimed
-- Index: the primary keys. Locks nothing.
create or replace function awa.job_status(
    inout job_id bigint,
    out kind text,
    out queue text,
    out state awa.job_state,
    out priority smallint,
    out attempt smallint,
    out max_attempts smallint,
    out run_at timestamptz,
    out created_at timestamptz,
    out attempted_at timestamptz,
    out finalized_at timestamptz,
    out progress jsonb,
    out result jsonb,
    out error text,
    out paused boolean
)
    returns setof record
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select job.id, job.kind, job.queue, job.state, job.priority, job.attempt, job.max_attempts, job.run_at,
           job.created_at, job.attempted_at, job.finalized_at, job.progress, job.result,
           job.errors -> -1 ->> 'error',
           exists (select from awa.queues as setting where setting.name = job.queue and setting.paused)
      from awa.jobs as job
     where job.id = job_status.job_id;
end
$$;
