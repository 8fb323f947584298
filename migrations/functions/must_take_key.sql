-- Which of these attempts must take a unique key in order to end as asked? Their key is not held while they run, and their
-- next state needs it: another job may have it by now, or an open transaction may have it in hand.
--   p_segments       where the rows were last seen: a hint
--   p_ids, p_leases  job ids and their run_leases, same order
--   p_outcomes       as for awa.settle_rows
-- Answers ids. Judged by what a look sees: a row that is edited afterwards may come to need a key all the same.
-- Index: the primary key of each segment. Locks nothing.
do $install$
declare
    needs    constant text := $needs$
                           hot.unique_key is not null
                               and (hot.unique_states & awa.state_bit('running')) = 0
                               and (hot.unique_states & case when wanted.outcome = 'park' then
                                       -- It waits, goes on at once, or is tried again: which, its callback says later.
                                       awa.state_bit('waiting_external') | awa.state_bit('available')
                                           | awa.state_bit('retryable') | awa.state_bit('failed')
                                   else awa.state_bit(
                                       case case wanted.outcome when 'committed' then 'retry' else wanted.outcome end
                                           when 'retry' then case when hot.attempt < hot.max_attempts
                                                                  then 'retryable' else 'failed' end
                                           when 'snooze' then 'scheduled'
                                           when 'fail' then 'failed'
                                           when 'cancel' then 'cancelled'
                                           when 'release' then 'available'
                                       end::awa.job_state) end) <> 0$needs$;
    branches text;
begin
    select string_agg(replace($branch$
            when @segment then
                select takers || array_agg(job.id) filter (where job.takes),
                       absent || array_agg(job.id) filter (where job.takes is null)
                  into takers, absent
                  from (select wanted.id,
                               (select @needs
                                  from awa.jobs_hot_@segment as hot
                                 where hot.id = wanted.id
                                   and hot.run_lease = wanted.run_lease
                                   and hot.state = 'running') as takes
                          from unnest(p_segments, p_ids, p_leases, p_outcomes)
                               as wanted (segment, id, run_lease, outcome)
                         where wanted.segment = here
                        offset 0) as job;$branch$, '@segment', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace(replace($function$
create or replace function awa.must_take_key(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_outcomes text[]
)
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $body$
declare
    takers bigint[] := '{}';
    absent bigint[] := '{}';
    here   smallint;
begin
    for here in select distinct hint.segment from unnest(p_segments) as hint (segment) order by 1 loop
        case here@branches
        else null;
        end case;
    end loop;
    if cardinality(absent) > 0 then
        takers := takers || array(
            select wanted.id
              from unnest(p_ids, p_leases, p_outcomes) as wanted (id, run_lease, outcome)
             cross join lateral (
                   select @needs as takes
                     from awa.jobs_hot as hot
                    where hot.id = wanted.id
                      and hot.run_lease = wanted.run_lease
                      and hot.state = 'running'
                   offset 0
             ) as job
             where wanted.id = any (absent)
               and job.takes);
    end if;
    return takers;
end
$body$
$function$, '@branches', branches), '@needs', needs);
end
$install$;
