-- Find rows of one segment that forbid its truncation: not completed, or completed and to be kept for longer.
--   p_segment     the segment
--   p_ended_by    completed rows that ended by then are past the ordinary retention
--   p_longer      queues that keep completed rows longer
--   p_limit       how many to find; fewer mean that there are no others
-- live, fresh and long are tuple ids by reason: available or running; completed within the ordinary retention; completed
-- within the longer retention of their queue.
-- Reads the whole segment when it is clean, in one statement, hence one snapshot. Locks nothing.
do $install$
declare
    branches text;
begin
    select string_agg(replace($branch$
        when @ then
            select array_agg(kept.tuple) filter (where kept.state <> 'completed'),
                   array_agg(kept.tuple) filter (where kept.state = 'completed' and not kept.long),
                   array_agg(kept.tuple) filter (where kept.state = 'completed' and kept.long)
              into live, fresh, long
              from (select job.ctid as tuple, job.state, job.queue = any (p_longer) as long
                      from awa.jobs_hot_@ as job
                     where job.state <> 'completed'
                        or job.finalized_at > p_ended_by
                        or (job.queue = any (p_longer)
                            -- Added to the end, not taken from now: for ever may be longer than the calendar.
                            and job.finalized_at + (select least(setting.completed_retention, interval '1000 years')
                                                      from awa.queues as setting
                                                     where setting.name = job.queue) > now())
                     limit p_limit) as kept;$branch$, '@', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.find_kept(
    p_segment smallint,
    p_ended_by timestamptz,
    p_longer text[],
    p_limit integer,
    out live tid[],
    out fresh tid[],
    out long tid[]
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set jit = off
as $body$
begin
    case p_segment
        @branches
    end case;
    live := coalesce(live, '{}');
    fresh := coalesce(fresh, '{}');
    long := coalesce(long, '{}');
end
$body$
$function$, '@branches', branches);
end
$install$;
