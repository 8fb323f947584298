-- How many parked jobs are past their retention and have not been deleted. One row.
--   p_limit  rows of each state that are looked at, the oldest first
-- since is when the first of them came of age; is_all is false where p_limit was reached: then at least so many. What a queue
-- keeps for longer is looked at, and passed by.
-- Index: jobs_hot_parked_retention, queues_pkey. Locks nothing.
create or replace function awa.survey_expired(p_limit integer, out expired bigint, out is_all boolean, out since timestamptz)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set enable_sort = off
    set jit = off
as $$
declare
    -- For ever may be longer than the calendar.
    ever constant interval := '1000 years';
    rule record;
    seen record;
begin
    expired := 0;
    is_all := true;
    for rule in
        select retention.state, least(retention.kept, ever) as kept, least(retention.kept, retention.shortest, ever) as shortest
          from (select ring.* from awa.ring as ring) as ring
         cross join (select min(setting.completed_retention) as completed, min(setting.failed_retention) as failed,
                            min(setting.cancelled_retention) as cancelled from awa.queues as setting) as own
         cross join lateral (
               values ('completed'::awa.job_state, ring.completed_retention, own.completed),
                      ('failed', ring.failed_retention, own.failed),
                      ('cancelled', ring.cancelled_retention, own.cancelled)) as retention (state, kept, shortest)
    loop
        select count(*) as looked,
               count(*) filter (where parked.due_at < now()) as due,
               min(parked.due_at) filter (where parked.due_at < now()) as since
          into seen
          from (select awa.calendar_time(job.finalized_at) + least(ever, coalesce(
                           (select case rule.state when 'completed' then setting.completed_retention
                                                   when 'failed' then setting.failed_retention
                                                   else setting.cancelled_retention end
                              from awa.queues as setting
                             where setting.name = job.queue), rule.kept)) as due_at
                  from awa.jobs_hot_parked as job
                 where job.state = rule.state
                   and job.finalized_at < now() - rule.shortest
                 order by job.state, job.finalized_at, job.id
                 limit p_limit) as parked;
        expired := expired + seen.due;
        is_all := is_all and seen.looked < p_limit;
        since := least(since, seen.since);
    end loop;
end
$$;
