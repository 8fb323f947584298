-- Take running rows out of the ring, wherever they are, and hand them to the caller, who inserts them where they go next
-- in the same statement or transaction. The building block of settle, rescue and release.
--   p_segments        where the rows were last seen: a hint
--   p_ids, p_leases   job ids and their run_leases, same order; the caller sorts them (unique key, then id)
-- Index: the primary key of each segment. Locks the rows segment by segment, in array order.
-- Loses: an attempt that no snapshot begun after the first look finds running is missing from the answer.
do $install$
declare
    branches text := '';
begin
    for segment in 0..7 loop
        branches := branches || replace($branch$
            when @ then
                for job in
                    delete from awa.jobs_hot_@ as hot
                     where hot.state = 'running'
                       and hot.ctid = any (array(
                           select held.tuple
                             from unnest(here_ids, here_leases) as wanted (id, run_lease)
                            cross join lateral (
                                  select running.ctid as tuple
                                    from awa.jobs_hot_@ as running
                                   where running.id = wanted.id
                                     and running.run_lease = wanted.run_lease
                                     and running.state = 'running'
                                     for update
                            ) as held))
                    returning hot.*
                loop
                    taken := taken || job.id;
                    return next job;
                end loop;$branch$, '@', segment::text);
    end loop;
    execute replace($function$
create or replace function awa.take(p_segments smallint[], p_ids bigint[], p_leases bigint[])
    returns setof awa.jobs_hot
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $body$
declare
    -- A row can move once more between a look and the lock; it cannot do so for ever.
    rounds_max  constant integer := 8;
    segments    smallint[] := p_segments;
    ids         bigint[] := p_ids;
    leases      bigint[] := p_leases;
    here        smallint;
    here_ids    bigint[];
    here_leases bigint[];
    taken       bigint[] := '{}';
    job         awa.jobs_hot;
begin
    for round in 1..rounds_max loop
        for here in select distinct hint.segment from unnest(segments) as hint (segment) order by 1 loop
            select array_agg(wanted.id order by wanted.place), array_agg(wanted.run_lease order by wanted.place)
              into here_ids, here_leases
              from unnest(segments, ids, leases) with ordinality as wanted (segment, id, run_lease, place)
             where wanted.segment = here;
            case here
            @branches
            else null;
            end case;
        end loop;
        exit when cardinality(taken) >= cardinality(p_ids);
        -- The second look: a statement of its own, over all segments, for those that the hint missed.
        select array_agg(wanted.id order by wanted.place), array_agg(wanted.run_lease order by wanted.place)
          into ids, leases
          from unnest(p_ids, p_leases) with ordinality as wanted (id, run_lease, place)
         where wanted.id <> all (taken);
        select array_agg(located.segment), array_agg(located.id), array_agg(located.run_lease)
          into segments, ids, leases
          from awa.locate(ids, leases) as located;
        exit when ids is null;
    end loop;
end
$body$
$function$, '@branches', branches);
end
$install$;
