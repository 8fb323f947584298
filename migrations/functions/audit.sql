-- Walk one piece of the hot plane and look for what must not be there. Each find is a bug; what can be mended is mended.
--   p_segment, p_after   where to go on: a segment (-1 for the parked) and the id behind which to start
--   p_rows               how many rows to look at
--   p_attempt_silence    seconds after which an attempt without a heartbeat is overdue
-- looked counts rows. next_segment and next_after say where to go on; next_segment is null at the end of the plane.
-- passed_by: available jobs at or below their lane's mark, which no look would find; they get a fresh seq.
-- unlisted: attempts overdue and in no row of active_claims, which rescue would not find; they are handed back.
-- doubled: ids that are in a second place too; nothing is done about them.
-- Index: primary keys. One statement reads the piece, hence one snapshot. Locks only what it mends, waiting at most 50 ms.
do $install$
declare
    branches text;
begin
    select string_agg(replace(replace($branch$
        when @segment then
            select count(*), max(job.id),
                   array_agg(job.tuple) filter (where job.state = 'available' and job.seq <= mark.seq),
                   array_agg(job.id) filter (where job.state = 'available' and job.seq <= mark.seq),
                   array_agg(job.id) filter (where job.silent),
                   array_agg(job.run_lease) filter (where job.silent),
                   array_agg(job.id) filter (where double.found)
              into looked, next_after, tuples, passed_by, silent_ids, silent_leases, doubled
              from (select hot.ctid as tuple, hot.id, hot.run_lease, hot.state, hot.queue, hot.priority, hot.seq,
                           hot.state = 'running'
                               and coalesce(greatest(hot.heartbeat_at, hot.attempted_at), '-infinity') < silent_since
                               as silent
                      from awa.jobs_hot_@table as hot
                     where hot.id > p_after
                     order by hot.id
                     limit p_rows) as job
              left join lateral (
                   select persisted.seq
                     from awa.lane_marks as persisted
                    where persisted.queue = job.queue
                      and persisted.priority = job.priority
                   offset 0
              ) as mark on true
              left join lateral (
                   select true as found
                    where exists (select 1 from awa.jobs_hot as other
                                   where other.id = job.id and other.segment <> @segment)
                       or exists (select 1 from awa.scheduled_jobs as other where other.id = job.id)
              ) as double on true;$branch$,
            '@segment', segment::text),
            '@table', case when segment < 0 then 'parked' else segment::text end), '' order by segment)
      into branches
      from generate_series(-1, 7) as segment;
    execute replace($function$
create or replace function awa.audit(
    p_segment smallint,
    p_after bigint,
    p_rows integer,
    p_attempt_silence double precision,
    out looked bigint,
    out next_segment smallint,
    out next_after bigint,
    out passed_by bigint[],
    out unlisted bigint[],
    out doubled bigint[]
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
    set lock_timeout = '50ms'
as $body$
declare
    silent_since  constant timestamptz := now() - make_interval(secs => p_attempt_silence);
    tuples        tid[];
    silent_ids    bigint[];
    silent_leases bigint[];
begin
    case p_segment
        @branches
    end case;
    passed_by := coalesce(passed_by, '{}');
    doubled := coalesce(doubled, '{}');
    if cardinality(passed_by) > 0 then
        perform awa.move_each(p_segment, tuples);
    end if;
    unlisted := awa.rescue_unlisted(p_segment, silent_ids, silent_leases, silent_since);
    if looked >= p_rows then
        next_segment := p_segment;
    else
        next_segment := case when p_segment < 7 then p_segment + 1 end;
        next_after := 0;
    end if;
end
$body$
$function$, '@branches', branches);
end
$install$;
