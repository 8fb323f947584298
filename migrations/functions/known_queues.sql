-- Which queues are there? Those that have settings, that a worker serves, and that have jobs in a segment.
--   p_limit  how many at most, in the order of their names
-- Goes from name to name by the index, whatever lies between. Index: dispatch of each segment. Locks nothing.
create or replace function awa.known_queues(p_limit integer) returns setof text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set jit = off
as $$
declare
    names text[] := '{}';
    last  text collate "C" := '';
begin
    for turn in 1..p_limit loop
        select job.queue into last
          from awa.jobs_hot as job
         where job.segment >= 0
           and job.queue > last
         order by job.queue, job.priority, job.seq
         limit 1;
        exit when last is null;
        names := names || last;
    end loop;
    return query
    select known.name
      from (select unnest(names) collate "C"
             union
            select setting.name from awa.queues as setting
             union
            select unnest(worker.queues) collate "C" from awa.workers as worker) as known (name)
     order by known.name
     limit p_limit;
end
$$;
