-- What waits in a lane: how many jobs, since when, and whether everything was seen.
--   p_queue, p_priority  the lane
--   p_before             rows numbered below; null for all
--   p_kinds              jobs of these kinds; null for all
--   p_rows_max           rows looked at from the front, and as many from the back should the front not be everything
-- The front is the lane's mark: below it nothing waits. Where kinds that nobody knows hold the mark back, or nobody moves it,
-- much that has ended lies behind it; the look from the back finds what came last. is_all is false where rows in between were not
-- looked at: then at least so many jobs wait, at least since then.
-- Index: dispatch of each segment, in its order. Locks nothing.
create or replace function awa.survey_lane(
    p_queue text,
    p_priority smallint,
    p_before bigint,
    p_kinds text[],
    p_rows_max integer,
    out available bigint,
    out waiting_since timestamptz,
    out is_all boolean,
    out looked bigint
)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set jit = off
as $$
declare
    low    bigint;
    high   constant bigint := coalesce(p_before, 9223372036854775807);
    behind record;
begin
    select mark.seq into low from awa.lane_marks as mark where mark.queue = p_queue and mark.priority = p_priority;
    low := coalesce(low, -1);
    select count(*), max(walked.seq), count(*) filter (where walked.waits), min(walked.since) filter (where walked.waits)
      into looked, low, available, waiting_since
      from (select job.seq,
                   job.state = 'available' and (p_kinds is null or job.kind = any (p_kinds)) as waits,
                   greatest(job.created_at, least(job.run_at, now())) as since
              from awa.jobs_hot as job
             where job.segment >= 0
               and job.queue = p_queue
               and job.priority = p_priority
               and job.seq > low
               and job.seq < high
             order by job.seq
             limit p_rows_max) as walked;
    is_all := looked < p_rows_max;
    if is_all or available >= p_rows_max then
        return;
    end if;
    select count(*) as looked, count(*) filter (where walked.waits) as available,
           min(walked.since) filter (where walked.waits) as since
      into behind
      from (select job.state = 'available' and (p_kinds is null or job.kind = any (p_kinds)) as waits,
                   greatest(job.created_at, least(job.run_at, now())) as since
              from awa.jobs_hot as job
             where job.segment >= 0
               and job.queue = p_queue
               and job.priority = p_priority
               and job.seq > low
               and job.seq < high
             order by job.seq desc
             limit p_rows_max) as walked;
    is_all := behind.looked < p_rows_max;
    looked := looked + behind.looked;
    available := available + behind.available;
    waiting_since := least(waiting_since, behind.since);
end
$$;
