-- Which of these attempts still run, and where?
--   p_segment          where they were claimed: a hint
--   p_ids, p_leases    job ids and their run_leases, same order
-- Exact as awa.locate is: a row found at the hint is judged by that snapshot, and for one that is not there a later
-- statement looks over all segments. An attempt that is missing from the answer has ended, for good.
-- Index: the primary key of each segment. Locks nothing.
do $install$
declare
    branches text;
begin
    select string_agg(replace($branch$
        when @ then
            select array_agg(job.id) filter (where job.runs),
                   array_agg(job.run_lease) filter (where job.runs),
                   array_agg(job.id) filter (where job.runs is null),
                   array_agg(job.run_lease) filter (where job.runs is null)
              into here_ids, here_leases, absent_ids, absent_leases
              from (select wanted.id, wanted.run_lease,
                           (select hot.state = 'running' and hot.run_lease = wanted.run_lease
                              from awa.jobs_hot_@ as hot
                             where hot.id = wanted.id) as runs
                      from unnest(p_ids, p_leases) as wanted (id, run_lease)
                    offset 0) as job
             where job.runs is distinct from false;$branch$, '@', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.still_running(p_segment smallint, p_ids bigint[], p_leases bigint[])
    returns table (segment smallint, id bigint, run_lease bigint)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $body$
#variable_conflict use_column
declare
    here_ids      bigint[];
    here_leases   bigint[];
    absent_ids    bigint[] := p_ids;
    absent_leases bigint[] := p_leases;
begin
    case p_segment
        @branches
        else null;
    end case;
    if here_ids is not null then
        return query
        select p_segment, found.id, found.run_lease
          from unnest(here_ids, here_leases) as found (id, run_lease);
    end if;
    if absent_ids is not null then
        return query
        select located.segment, located.id, located.run_lease
          from awa.locate(absent_ids, absent_leases) as located;
    end if;
end
$body$
$function$, '@branches', branches);
end
$install$;
