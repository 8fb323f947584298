-- What waits for its time, by queue: the first jobs that come due, and what they are.
--   p_limit  how many of them are looked at
-- next_due_at is the time of the queue's first one, deferred how many of them are the queue's, overdue how many should have been
-- promoted. is_all, the same in each row, is false where more wait: then at least so many do, and queues may be missing.
-- Index: scheduled_jobs_due. Locks nothing.
create or replace function awa.survey_deferred(p_limit integer)
    returns table (queue text, deferred bigint, overdue bigint, next_due_at timestamptz, is_all boolean)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set jit = off
as $$
#variable_conflict use_column
begin
    return query
    with looked as materialized (
        select job.queue, job.run_at
          from awa.scheduled_jobs as job
         order by job.run_at, job.id
         limit p_limit
    )
    select looked.queue, count(*), count(*) filter (where looked.run_at <= now()), min(looked.run_at),
           (select count(*) from looked) < p_limit
      from looked
     group by looked.queue;
end
$$;
