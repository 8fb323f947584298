-- The queues that crowd a batch: that took at least a quarter as much of it as the one that took most. The largest come first;
-- 32 at most.
--   p_queues  the queue of each of its jobs
-- Reads no table.
create or replace function awa.crowding(p_queues text[]) returns text[]
    language sql immutable
    set search_path = pg_catalog, pg_temp
return (
    select array_agg(crowd.name order by crowd.jobs desc, crowd.name)
      from (select taken.name, count(*) as jobs, max(count(*)) over () as most
              from unnest(p_queues) as taken (name)
             group by taken.name
             order by count(*) desc, taken.name
             limit 32) as crowd
     where crowd.jobs * 4 >= crowd.most
);
