-- How many attempts run, by queue and worker. One row for each pair.
--   p_limit  attempts looked at, those of the newest batches first: what is still needed of old ones is listed anew by and by
-- is_all, the same in each row, is false where there are more on the list: then at least so many run.
-- Index: active_claims is read through; job rows by the primary key of the segment where they were claimed, or of all. Locks nothing.
create or replace function awa.survey_running(p_limit integer)
    returns table (queue text, worker uuid, running bigint, is_all boolean)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
#variable_conflict use_column
declare
    listed record;
begin
    -- No batch is empty.
    select array_agg(claimed.id) as ids, array_agg(claimed.run_lease) as leases, count(*) < p_limit as is_all
      into listed
      from (select attempt.id, attempt.run_lease
              from (select claim.job_ids, claim.run_leases
                      from awa.active_claims as claim
                     order by claim.id desc
                     limit p_limit) as batch
             cross join lateral unnest(batch.job_ids, batch.run_leases) as attempt (id, run_lease)
             limit p_limit) as claimed;
    return query
    select job.queue, job.worker, count(*), listed.is_all
      from unnest(listed.ids, listed.leases) as wanted (id, run_lease)
     cross join lateral (
           select hot.queue, hot.attempted_by as worker
             from awa.jobs_hot as hot
            where hot.segment >= 0
              and hot.id = wanted.id
              and hot.run_lease = wanted.run_lease
              and hot.state = 'running'
           offset 0
     ) as job
     group by job.queue, job.worker;
end
$$;
