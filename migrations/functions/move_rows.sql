-- Move rows of one ring segment on: those that are available or running into the current segment, completed ones to the
-- parked. An available row gets a fresh seq and its queue is woken; a running one keeps its lease.
--   p_segment  where they are
--   p_tuples   their tuple ids: a row that has changed since, or that somebody has locked, is passed by
-- Answers how many rows moved. Every column goes along (the list is generated).
-- Index: none, by tuple id. Locks the rows, waiting for none; then the unique claims that they hold, in key order.
do $install$
declare
    branches text;
begin
    select string_agg(replace(replace($branch$
        when @segment then
            select array_agg(hot.ctid), array_agg(hot.unique_key)
              into tuples, keys
              from (select job.ctid, job.unique_key
                      from awa.jobs_hot_@segment as job
                     where job.ctid = any (p_tuples)
                       for update skip locked) as hot;
            perform awa.lock_unique_claims(keys);
            with gone as (
                delete from awa.jobs_hot_@segment as job
                 where job.ctid = any (tuples)
                returning seq, @columns
            ),
            live as (
                insert into awa.jobs_hot (segment, @columns)
                select awa.current_segment(), @columns
                  from gone
                 where state <> 'completed'
                 order by seq
                returning state, queue
            ),
            parked as (
                insert into awa.jobs_hot_parked (segment, @columns)
                select -1, @columns
                  from gone
                 where state = 'completed'
                returning id
            )
            select (select count(*) from live) + (select count(*) from parked),
                   array(select distinct queue from live where state = 'available' order by queue)
              into moved, queues;$branch$,
            '@segment', segment::text),
            '@columns', awa.job_columns(variadic '{}')), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.move_rows(p_segment smallint, p_tuples tid[]) returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $body$
declare
    tuples tid[];
    keys   bytea[];
    queues text[];
    moved  bigint := 0;
begin
    case p_segment
        @branches
    end case;
    perform awa.wake(queue) from unnest(queues) as queue;
    return moved;
end
$body$
$function$, '@branches', branches);
end
$install$;
