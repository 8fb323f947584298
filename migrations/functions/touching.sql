-- Which of these open transactions hold a lock on a job segment? The others have drawn no seq yet.
--   p_xids  transaction ids
-- Reads pg_locks once, which knows the low half of an id. Locks nothing.
create or replace function awa.touching(p_xids bigint[]) returns setof bigint
    language sql volatile
    set search_path = pg_catalog
as $$
    with held as materialized (
        select * from pg_locks
    ),
    writers as (
        select distinct held.virtualtransaction
          from held
         where held.locktype = 'relation'
           and held.mode <> 'AccessShareLock'
           and held.database = (select oid from pg_database where datname = current_database())
           and held.relation in (
               select 'awa.jobs_hot'::regclass::oid
               union all
               select inhrelid from pg_inherits where inhparent = 'awa.jobs_hot'::regclass
           )
    )
    select asked.xid
      from unnest(p_xids) as asked (xid)
      join held
        on held.locktype = 'transactionid'
       and held.mode = 'ExclusiveLock'
       and held.granted
       and held.transactionid::text::bigint = (asked.xid & 4294967295)
      join writers
        on writers.virtualtransaction = held.virtualtransaction
$$;
