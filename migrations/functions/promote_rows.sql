-- Move these deferred rows into the current segment, available, oldest first, each with a fresh seq.
--   p_tuples  where the rows are; the caller holds their locks
-- run_at keeps the due time; every other column goes along (the list is generated). Answers how many rows moved and the
-- queues that they went to. Index: none, by tuple id. Locks the unique claims that the rows hold, in key order.
do $install$
begin
    execute replace($function$
create or replace function awa.promote_rows(p_tuples tid[], out promoted integer, out queues text[])
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $body$
begin
    perform awa.lock_unique_claims(array(
        select job.unique_key from awa.scheduled_jobs as job where job.ctid = any (p_tuples)));
    with gone as (
        delete from awa.scheduled_jobs as job
         where job.ctid = any (p_tuples)
        returning @columns
    ),
    entered as (
        insert into awa.jobs_hot (segment, state, @columns)
        select awa.current_segment(), 'available', @columns
          from gone
         order by run_at, id
        returning queue
    )
    select count(*), array_agg(distinct entered.queue)
      into promoted, queues
      from entered;
end
$body$
$function$, '@columns', awa.job_columns('state'));
end
$install$;
