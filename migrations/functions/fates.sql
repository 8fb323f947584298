-- Which of these attempts have been taken from their worker, and what became of each?
--   p_ids, p_leases  job ids and their run_leases, same order
-- Answers those that do not run under their lease any more, in the order given, with one of
--   cancelled  somebody called the job off
--   deleted    there is no such job any more
--   answered   a callback ended the attempt from outside
--   rescued    everything else: handed back, tried again since, displaced, or settled by the worker itself
-- One statement, hence one snapshot: a job that moves between tables is seen once.
-- Index: the primary key of each table. Locks nothing.
create or replace function awa.fates(p_ids bigint[], p_leases bigint[])
    returns table (id bigint, run_lease bigint, why text)
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
    select wanted.id,
           wanted.run_lease,
           case when job.run_lease is null then 'deleted'
                when job.run_lease <> wanted.run_lease then 'rescued'
                when ended.source = 'callback' then 'answered'
                when job.state = 'cancelled' and ended.source is distinct from 'rescue' then 'cancelled'
                when job.state = 'completed' then 'answered'
                else 'rescued' end
      from unnest(p_ids, p_leases) with ordinality as wanted (id, run_lease, place)
      left join lateral (
           select hot.state, hot.run_lease, hot.errors from awa.jobs_hot as hot where hot.id = wanted.id
           union all
           select waiting.state, waiting.run_lease, waiting.errors from awa.scheduled_jobs as waiting where waiting.id = wanted.id
           offset 0
      ) as job on true
     cross join lateral (
           -- The newest entry, if this attempt left it.
           select case when job.errors -> -1 ->> 'lease' = wanted.run_lease::text
                       then job.errors -> -1 ->> 'source' end as source
      ) as ended
     where (job.state = 'running' and job.run_lease = wanted.run_lease) is not true
     order by wanted.place;
end
$$;
