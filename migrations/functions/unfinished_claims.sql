-- Which batches of a part of active_claims may have attempts that still run? A step of awa.empty_claims.
--   p_part  the part
-- Answers all batches that were seen, and those of them that need a closer look (awa.copy_claim): a batch that is seen and
-- not among these has ended for good. Everything is one statement, hence one snapshot, in which a row that moves is in
-- exactly one place; so what is not found running there ran no more.
-- Jobs are claimed nearly in the order in which they were numbered. Where the ids of the part lie close together, one walk
-- over that stretch is a third of the cost of looking each of them up; where they do not, each batch needs a closer look.
-- Index: the primary key of each segment. Locks nothing.
create or replace function awa.unfinished_claims(p_part smallint, out seen bigint[], out suspects bigint[])
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    -- What joins here is too large for a nested loop, and the planner has nothing to know that from.
    set enable_nestloop = off
    set jit = off
as $$
begin
    with batch as materialized (
        select claim.id, claim.job_ids
          from awa.active_claims as claim
         where claim.part = p_part
    ),
    listed as materialized (
        select batch.id as batch_id, job.id
          from batch
         cross join lateral unnest(batch.job_ids) as job (id)
    ),
    stretch as materialized (
        select min(listed.id) as low, max(listed.id) as high, max(listed.id) - min(listed.id) <= 6 * count(*) as is_dense
          from listed
    ),
    running as materialized (
        select job.id
          from stretch
         cross join lateral (
               select hot.id
                 from awa.jobs_hot as hot
                where hot.id between stretch.low and stretch.high
                  and hot.state = 'running'
               offset 0
         ) as job
         where stretch.is_dense
    )
    select (select coalesce(array_agg(batch.id), '{}') from batch),
           (select coalesce(array_agg(distinct suspect.id), '{}')
              from (select listed.batch_id as id from listed join running on running.id = listed.id
                    union all
                    select batch.id from batch cross join stretch where not stretch.is_dense) as suspect)
      into seen, suspects;
end
$$;
