-- Where do these attempts run now? One statement, hence one snapshot: a row that moves between segments is seen once.
--   p_ids, p_leases  job ids and their run_leases, same order
-- Index: the primary key of each segment. Locks nothing. An attempt that is missing from the answer has lost its lease.
create or replace function awa.locate(p_ids bigint[], p_leases bigint[])
    returns table (id bigint, run_lease bigint, segment smallint)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select wanted.id, wanted.run_lease, job.segment
      from unnest(p_ids, p_leases) as wanted (id, run_lease)
     cross join lateral (
           select hot.segment
             from awa.jobs_hot as hot
            where hot.id = wanted.id
              and hot.run_lease = wanted.run_lease
              and hot.state = 'running'
           offset 0
     ) as job;
end
$$;
