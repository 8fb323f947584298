-- Look once at every row of (lo, hi] in each lane, over all segments, without locks.
--   p_queues, p_priorities        the lanes, same order as the three that follow
--   p_los, p_his                  the stretch: greater than lo, up to hi
--   p_optimistic                  what claims have passed; rows at or below it that are available are found
--   p_kinds                       kinds this process runs; null for all
--   p_rows_max                    rows looked at, per lane and segment
-- Answers for each lane that holds anything there: reached (everything up to it was looked at, in all segments), looked (rows
-- visited), found_seqs and found_segments (available, known, passed by claims; entries above reached are to be dropped),
-- beyond_segments (where an available row waits that claims have not reached: the look stops before it), other (lowest
-- available row of another kind). A lane that is not answered holds nothing: it is looked at up to hi.
-- In a segment that claims do not visit any available row counts as passed. Index: dispatch of each segment.
-- One statement visits what claims have passed, of all lanes: most hold nothing new in most segments. What lies beyond is read
-- row by row, up to the first that waits.
do $install$
declare
    passed constant text := $passed$
        select asked.lane::integer as lane, @segment as place, here.passed, behind.*, ahead.more
          from unnest(p_queues, p_priorities, p_los, p_his, p_optimistic)
               with ordinality as asked (queue, priority, lo, hi, optimistic, lane)
         cross join lateral (
               select case when live_segments & (1 << @segment) <> 0 then asked.optimistic else 9223372036854775807 end as passed
         ) as here
         cross join lateral (
               select
                 from awa.jobs_hot_@segment as job
                where job.queue = asked.queue
                  and job.priority = asked.priority
                  and job.seq > asked.lo
                  and job.seq <= asked.hi
                limit 1
         ) as something
         cross join lateral (
               select count(*)::integer as visited,
                      max(visit.seq) as seen,
                      array_agg(visit.seq order by visit.seq) filter (where visit.known) as found,
                      min(visit.seq) filter (where not visit.known) as other
                 from (select job.seq,
                              case when job.state = 'available' then p_kinds is null or job.kind = any (p_kinds) end as known
                         from awa.jobs_hot_@segment as job
                        where job.queue = asked.queue
                          and job.priority = asked.priority
                          and job.seq > asked.lo
                          and job.seq <= least(asked.hi, here.passed)
                        order by job.seq
                        limit p_rows_max) as visit
         ) as behind
         cross join lateral (
               select exists (select
                                from awa.jobs_hot_@segment as job
                               where job.queue = asked.queue
                                 and job.priority = asked.priority
                                 and job.seq > greatest(asked.lo, here.passed)
                                 and job.seq <= asked.hi) as more
         ) as ahead
         where filled_segments & (1 << @segment) <> 0$passed$;
    -- The loop stands in each branch: PL/pgSQL reads a plain query's rows fifty at a time, a cursor's one by one.
    beyond constant text := $beyond$
            when @segment then
                for row in
                    select job.seq, case when job.state = 'available' then job.kind end as waiting
                      from awa.jobs_hot_@segment as job
                     where job.queue = p_queues[lane]
                       and job.priority = p_priorities[lane]
                       and job.seq > greatest(p_los[lane], part.passed)
                       and job.seq <= reached
                     order by job.seq
                     limit p_rows_max - visited
                loop
                    visited := visited + 1;
                    seen := row.seq;
                    if row.waiting is not null then
                        if p_kinds is null or row.waiting = any (p_kinds) then
                            stop := row.seq - 1;
                            beyond_segments := beyond_segments || part.place::smallint;
                            exit;
                        end if;
                        other := least(other, row.seq);
                    end if;
                end loop;$beyond$;
    passes  text;
    beyonds text;
begin
    select string_agg(replace(passed, '@segment', segment::text), ' union all ' order by segment),
           string_agg(replace(beyond, '@segment', segment::text), '' order by segment)
      into passes, beyonds
      from generate_series(0, 7) as segment;
    execute replace(replace($function$
create or replace function awa.look(
    p_queues text[],
    p_priorities smallint[],
    p_los bigint[],
    p_his bigint[],
    p_optimistic bigint[],
    p_kinds text[],
    p_rows_max integer
)
    returns table (
        lane integer,
        reached bigint,
        looked integer,
        found_seqs bigint[],
        found_segments smallint[],
        beyond_segments smallint[],
        other bigint
    )
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $look$
#variable_conflict use_variable
declare
    found_max     constant integer := 4096;
    -- Those that claims visit, one bit each: generation g is kept in segment g modulo 8.
    live_segments integer := 0;
    -- Those that have any page. Whoever inserts gives one a page before they commit.
    filled_segments integer := 0;
    ring          awa.ring;
    part          record;
    row           record;
    visited       integer;
    seen          bigint;
    stop          bigint;
begin
    select live.* into ring from awa.ring as live;
    for generation in ring.oldest..ring.current loop
        live_segments := live_segments | (1 << (generation % 8)::integer);
    end loop;
    for segment in 0..7 loop
        if pg_relation_size(format('awa.jobs_hot_%s', segment)::regclass) > 0 then
            filled_segments := filled_segments | (1 << segment);
        end if;
    end loop;
    for part in
        select * from (@passes) as parts order by parts.lane, parts.place
    loop
        if lane is distinct from part.lane then
            if lane is not null then
                return next;
            end if;
            lane := part.lane;
            reached := p_his[lane];
            looked := 0;
            found_seqs := '{}';
            found_segments := '{}';
            beyond_segments := '{}';
            other := null;
        end if;
        visited := part.visited;
        seen := part.seen;
        stop := null;
        other := least(other, part.other);
        if part.found is not null then
            found_seqs := found_seqs || part.found[:found_max];
            found_segments := found_segments
                || array_fill(part.place::smallint, array[least(cardinality(part.found), found_max)]);
            if cardinality(part.found) > found_max then
                stop := part.found[found_max];
            end if;
        end if;
        if part.more and stop is null and visited < p_rows_max then
            case part.place@beyonds
            end case;
        end if;
        looked := looked + visited;
        if stop is null and visited >= p_rows_max then
            stop := seen;
        end if;
        -- Both lie within the stretch, or a segment before has stopped earlier.
        reached := least(reached, stop);
    end loop;
    if lane is not null then
        return next;
    end if;
end
$look$
$function$, '@passes', passes), '@beyonds', beyonds);
end
$install$;
