-- Which of these rows are still available? Asked for rows that a look found, until none is left.
--   p_places                            numbers that the caller knows the rows by, returned for those still available
--   p_queues, p_priorities, p_segments, p_seqs   where each row lies, same order
-- Index: dispatch of each segment. Locks nothing.
do $install$
declare
    looks text;
begin
    select string_agg(replace($look$
    select asked.place
      from asked
     cross join lateral (
           select 1
             from awa.jobs_hot_@ as job
            where asked.segment = @
              and job.queue = asked.queue
              and job.priority = asked.priority
              and job.seq = asked.seq
              and job.state = 'available'
           offset 0
     ) as waiting$look$, '@', segment::text), ' union all ' order by segment)
      into looks
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.still_available(
    p_places integer[],
    p_queues text[],
    p_priorities smallint[],
    p_segments smallint[],
    p_seqs bigint[]
)
    returns setof integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $still$
begin
    return query
    with asked as (
        select *
          from unnest(p_places, p_queues, p_priorities, p_segments, p_seqs) as asked (place, queue, priority, segment, seq)
    )@looks;
end
$still$
$function$, '@looks', looks);
end
$install$;
