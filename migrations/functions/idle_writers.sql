-- Which of these transactions are open and hold no lock on a job table? They have drawn no seq yet.
--   p_xids  transaction ids
-- One that has ended meanwhile is not among the answers: it may well have drawn some.
-- Reads pg_locks once, which collects fast-path locks before the main table: a job table's lock that is missing although
-- the transaction's own is there was taken after this began. pg_locks knows the low half of an id. Locks nothing.
create or replace function awa.idle_writers(p_xids bigint[]) returns setof bigint
    language sql volatile
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    with held as materialized (
        select * from pg_locks
    )
    select asked.xid
      from unnest(p_xids) as asked (xid)
      join held as own
        on own.locktype = 'transactionid'
       and own.mode = 'ExclusiveLock'
       and own.granted
       and own.transactionid::text::bigint = (asked.xid & 4294967295)
     where not exists (
           select from held
            where held.virtualtransaction = own.virtualtransaction
              and held.locktype = 'relation'
              and held.mode <> 'AccessShareLock'
              and held.database = (select oid from pg_database where datname = current_database())
              and held.relation in (
                  select 'awa.jobs_hot'::regclass::oid
                  union all
                  select inhrelid from pg_inherits where inhparent = 'awa.jobs_hot'::regclass
              )
     )
$$;
