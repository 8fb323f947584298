-- Complete running attempts in place: the hot path of settling.
--   p_segment          where the rows were claimed: a hint
--   p_tuples           their tuple ids there, as text: a hint
--   p_ids, p_leases    job ids and their run_leases, same order, sorted by id
--   p_results          what the handlers returned, as JSON; null for a batch without any result
-- Answers the ids that were not applied because the lease is lost. A lease that finds its own row already completed counts
-- as applied, so a retry after an unknown commit is harmless. Completion clears progress.
-- First by tuple id, then by id in the same segment, then wherever awa.locate finds the row: each look is a statement of its
-- own, so a row that a move or a heartbeat changed meanwhile is not taken for lost.
-- Index: the primary key of each segment. Locks the rows in array order; waits at most a quarter of a second for another's
-- lock: the caller then tries smaller batches.
do $install$
declare
    branch constant text := $branch$
        when @segment then
            if p_results is null then
                update awa.jobs_hot_@segment as job
                   set state = 'completed', finalized_at = now(), progress = null
                  from unnest(tuples, ids, leases) as held (tuple, id, run_lease)
                 where job.ctid = held.tuple::tid
                   and job.id = held.id
                   and job.run_lease = held.run_lease
                   and job.state = 'running';
            else
                update awa.jobs_hot_@segment as job
                   set state = 'completed', finalized_at = now(), progress = null, result = held.result
                  from unnest(tuples, ids, leases, results) as held (tuple, id, run_lease, result)
                 where job.ctid = held.tuple::tid
                   and job.id = held.id
                   and job.run_lease = held.run_lease
                   and job.state = 'running';
            end if;
            get diagnostics got = row_count;
            if got < cardinality(ids) then
                select array_agg(wanted.id order by wanted.place),
                       array_agg(wanted.run_lease order by wanted.place),
                       array_agg(here.tuple::text order by wanted.place),
                       array_agg(wanted.result order by wanted.place)
                  into ids, leases, tuples, results
                  from unnest(ids, leases, coalesce(results, array_fill(null::jsonb, array[cardinality(ids)])))
                       with ordinality as wanted (id, run_lease, result, place)
                 cross join lateral (
                       select job.ctid as tuple
                         from awa.jobs_hot_@segment as job
                        where job.id = wanted.id
                          and job.run_lease = wanted.run_lease
                          and job.state = 'running'
                       offset 0
                 ) as here;
            else
                ids := null;
            end if;$branch$;
    branches text;
begin
    select string_agg(replace(branch, '@segment', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.complete(
    p_segment smallint,
    p_tuples text[],
    p_ids bigint[],
    p_leases bigint[],
    p_results jsonb[]
)
    returns setof bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
    set lock_timeout = '250ms'
as $complete$
#variable_conflict use_column
declare
    -- A row can change once more between a look and the write; it cannot do so for ever.
    rounds_max constant integer := 8;
    here    smallint := p_segment;
    tuples  text[] := p_tuples;
    ids     bigint[] := p_ids;
    leases  bigint[] := p_leases;
    results jsonb[] := p_results;
    got     bigint;
    applied bigint := 0;
    pending record;
begin
    for round in 1..rounds_max loop
        case here@branches
        end case;
        applied := applied + got;
        exit when ids is null;
    end loop;
    if applied = cardinality(p_ids) then
        return;
    end if;
    return query select * from awa.complete_elsewhere(p_ids, p_leases, p_results);
end
$complete$
$function$, '@branches', branches);
end
$install$;
