-- A sign of life for running attempts, with the progress they have to report.
--   p_segments         where the rows were last seen: a hint
--   p_ids, p_leases    job ids and their run_leases, same order, sorted by id
--   p_progress         what to store, same order; null for a batch that reports nothing
-- Progress of a generation that the row has reached already is passed over, while its beat counts: a statement that was held
-- up on its way must not undo what a later one has stored. A generation that awa_model would not write is none.
-- Answers the ids whose lease is lost: a second look, a statement of its own over all segments, did not find them either.
-- Index: the primary key of each segment. Locks the rows segment by segment; waits at most a second for another's lock.
do $install$
declare
    branch constant text := $branch$
            when @segment then
                if p_progress is null then
                    for beaten in
                        update awa.jobs_hot_@segment as job
                           set heartbeat_at = now()
                          from (select running.tuple, wanted.run_lease
                                  from unnest(here_ids, here_leases) as wanted (id, run_lease)
                                 cross join lateral (
                                       select hot.ctid as tuple
                                         from awa.jobs_hot_@segment as hot
                                        where hot.id = wanted.id
                                          and hot.run_lease = wanted.run_lease
                                          and hot.state = 'running'
                                       offset 0
                                 ) as running
                                offset 0) as target
                         where job.ctid = target.tuple
                           and job.run_lease = target.run_lease
                           and job.state = 'running'
                        returning job.id, job.run_lease
                    loop
                        alive := alive || beaten.id;
                        alive_leases := alive_leases || beaten.run_lease;
                    end loop;
                else
                    for beaten in
                        update awa.jobs_hot_@segment as job
                           set heartbeat_at = now(),
                               progress = case
                                   when jsonb_typeof(job.progress -> 'generation') = 'number'
                                        and job.progress -> 'generation' < '9007199254740992'
                                        and job.progress -> 'generation' >= target.progress -> 'generation'
                                   then job.progress
                                   else target.progress
                               end
                          from (select running.tuple, wanted.run_lease, wanted.progress
                                  from unnest(here_ids, here_leases, here_progress)
                                       as wanted (id, run_lease, progress)
                                 cross join lateral (
                                       select hot.ctid as tuple
                                         from awa.jobs_hot_@segment as hot
                                        where hot.id = wanted.id
                                          and hot.run_lease = wanted.run_lease
                                          and hot.state = 'running'
                                       offset 0
                                 ) as running
                                offset 0) as target
                         where job.ctid = target.tuple
                           and job.run_lease = target.run_lease
                           and job.state = 'running'
                        returning job.id, job.run_lease
                    loop
                        alive := alive || beaten.id;
                        alive_leases := alive_leases || beaten.run_lease;
                    end loop;
                end if;$branch$;
    branches text;
begin
    select string_agg(replace(branch, '@segment', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.beat(p_segments smallint[], p_ids bigint[], p_leases bigint[], p_progress jsonb[])
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
    set lock_timeout = '1s'
as $beat$
#variable_conflict use_column
declare
    -- A row can change once more between a look and the write; it cannot do so for ever.
    rounds_max    constant integer := 8;
    segments      smallint[] := p_segments;
    ids           bigint[] := p_ids;
    leases        bigint[] := p_leases;
    here          smallint;
    here_ids      bigint[];
    here_leases   bigint[];
    here_progress jsonb[];
    reports       jsonb[] := p_progress;
    -- Names of attempts are compared as sets: a batch may have tens of thousands.
    alive         bigint[] := '{}';
    alive_leases  bigint[] := '{}';
    beaten        record;
begin
    for round in 1..rounds_max loop
        for here in select distinct hint.segment from unnest(segments) as hint (segment) order by 1 loop
            select array_agg(wanted.id order by wanted.place),
                   array_agg(wanted.run_lease order by wanted.place),
                   array_agg(wanted.progress order by wanted.place)
              into here_ids, here_leases, here_progress
              from unnest(segments, ids, leases, reports) with ordinality
                   as wanted (segment, id, run_lease, progress, place)
             where wanted.segment = here;
            case here@branches
            else null;
            end case;
        end loop;
        if cardinality(alive) >= cardinality(p_ids) then
            return;
        end if;
        select array_agg(missing.id), array_agg(missing.run_lease)
          into ids, leases
          from (select wanted.id, wanted.run_lease from unnest(p_ids, p_leases) as wanted (id, run_lease)
                except
                select living.id, living.run_lease from unnest(alive, alive_leases) as living (id, run_lease)) as missing;
        select array_agg(located.segment order by located.id), array_agg(located.id order by located.id),
               array_agg(located.run_lease order by located.id),
               array_agg(p_progress[array_position(p_ids, located.id)] order by located.id)
          into segments, ids, leases, reports
          from awa.locate(ids, leases) as located;
        exit when ids is null;
    end loop;
    return query
    select wanted.id from unnest(p_ids) as wanted (id)
    except
    select living.id from unnest(alive) as living (id);
end
$beat$
$function$, '@branches', branches);
end
$install$;
