-- Complete attempts that are no longer where they were claimed; the rare path behind awa.complete.
--   p_ids, p_leases, p_results  as there; attempts that are completed already are passed by
-- Answers the ids whose lease is lost: two looks, each a statement of its own over all segments, found them neither running
-- nor completed under their own lease. Index: the primary key of each segment. Locks one row after the other; waits for each as long as the caller's
-- lock_timeout says.
create or replace function awa.complete_elsewhere(p_ids bigint[], p_leases bigint[], p_results jsonb[])
    returns setof bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
#variable_conflict use_column
declare
    rounds_max constant integer := 8;
    done bigint[] := '{}';
    job  record;
begin
    for round in 1..rounds_max loop
        for job in
            select located.id, located.run_lease, located.segment,
                   p_results[array_position(p_ids, located.id)] as result
              from awa.locate(p_ids, p_leases) as located
             order by located.id
        loop
            update awa.jobs_hot as hot
               set state = 'completed', finalized_at = now(), progress = null, result = job.result
             where hot.segment = job.segment
               and hot.id = job.id
               and hot.run_lease = job.run_lease
               and hot.state = 'running';
        end loop;
        select array_agg(settled.id) into done
          from unnest(p_ids, p_leases) as wanted (id, run_lease)
         cross join lateral (
               select hot.id
                 from awa.jobs_hot as hot
                where hot.id = wanted.id
                  and hot.run_lease = wanted.run_lease
                  and hot.state = 'completed'
               offset 0
         ) as settled;
        exit when not exists (select from awa.locate(p_ids, p_leases));
    end loop;
    return query
    select wanted.id
      from unnest(p_ids) as wanted (id)
     where wanted.id <> all (coalesce(done, '{}'));
end
$$;
