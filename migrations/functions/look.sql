-- Look once at every row of (lo, hi] in each lane, over all segments, without locks.
--   p_queues, p_priorities        the lanes, same order as the three that follow
--   p_los, p_his                  the stretch: greater than lo, up to hi
--   p_optimistic                  what claims have passed; rows at or below it that are available are found
--   p_kinds                       kinds this process runs; null for all
--   p_rows_max                    rows looked at, per lane and segment
-- Answers per lane: reached (everything up to it was looked at, in all segments), looked (rows visited), found_seqs and
-- found_segments (available, known, passed by claims; entries above reached are to be dropped), beyond_segments (where an
-- available row waits that claims have not reached: the look stops before it), other (lowest available row of another kind).
-- In a segment that claims do not visit any available row counts as passed. Index: dispatch of each segment.
-- A segment that stops early narrows the stretch for those after it.
do $install$
declare
    -- The loop stands in each branch: PL/pgSQL reads a plain query's rows fifty at a time, a cursor's one by one.
    branch constant text := $branch$
            when @segment then
                for row in
                    select job.seq, case when job.state = 'available' then job.kind end as waiting
                      from awa.jobs_hot_@segment as job
                     where job.queue = p_queues[lane]
                       and job.priority = p_priorities[lane]
                       and job.seq > p_los[lane]
                       and job.seq <= reached
                     order by job.seq
                     limit p_rows_max
                loop
                    visited := visited + 1;
                    if row.waiting is not null then
                        if p_kinds is null or row.waiting = any (p_kinds) then
                            if row.seq > passed then
                                stop := row.seq - 1;
                                beyond_segments := beyond_segments || place::smallint;
                                exit;
                            end if;
                            found_seqs := found_seqs || row.seq;
                            found_segments := found_segments || place::smallint;
                            if cardinality(found_seqs) >= found_max then
                                stop := row.seq;
                                exit;
                            end if;
                        elsif other is null or row.seq < other then
                            other := row.seq;
                        end if;
                    end if;
                    seen := row.seq;
                end loop;$branch$;
    branches text;
begin
    select string_agg(replace(branch, '@segment', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
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
    found_max constant integer := 4096;
    row     record;
    live    awa.ring;
    passed  bigint;
    visited integer;
    seen    bigint;
    stop    bigint;
begin
    select ring.* into live from awa.ring as ring;
    for asked in 1..cardinality(p_queues) loop
        lane := asked;
        reached := p_his[lane];
        looked := 0;
        found_seqs := '{}';
        found_segments := '{}';
        beyond_segments := '{}';
        other := null;
        for place in 0..7 loop
            -- Generation g is kept in segment g modulo 8, and claims visit the generations oldest..current.
            passed := case
                when (place - live.oldest % 8 + 8) % 8 <= live.current - live.oldest then p_optimistic[lane]
                else 9223372036854775807
            end;
            visited := 0;
            seen := p_los[lane];
            stop := null;
            case place@branches
            end case;
            looked := looked + visited;
            if stop is not null then
                reached := stop;
            elsif visited >= p_rows_max then
                reached := seen;
            end if;
        end loop;
        return next;
    end loop;
end
$look$
$function$, '@branches', branches);
end
$install$;
