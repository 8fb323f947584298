-- What is open and holds something up: sessions whose transaction is older than a minute, prepared transactions, replication
-- slots, and replicas that tell what their queries still read. One JSON array of objects, the oldest first.
--   p_age    transactions of sessions that began before that long ago
--   p_limit  how many at most, of each sort
-- Each has what (session, prepared, slot, replica), name, pid, user, application, state, since, query_started_at, xids (how many
-- transactions have begun after what it may still see), and holds, a list of:
--   jobs   it has changed or locked jobs, or enqueued some: these are seen, claimed or promoted when it ends
--   ring   it has read the job tables, or the ring waits for its snapshot: no segment that it may read is emptied
--   catalogs  the same of system tables alone, by a slot
--   rows   rows that have been deleted or replaced since it began are not cleaned up, in no table of the database
-- What a session of another role does is hidden unless the owner of the schema is a member of pg_read_all_stats: such a one is
-- told without since once a thousand transactions have begun after it. Texts of queries are not told.
-- Reads what is in shared memory, and awa.ring; locks nothing.
create or replace function awa.holders(p_age interval, p_limit integer) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    here constant oid := (select database.oid from pg_database as database where database.datname = current_database());
    hidden_age_min constant integer := 1000;
    found jsonb;
begin
    with held as materialized (
        -- The virtual transaction of a prepared one is its own too.
        select own.virtualtransaction, own.locktype, own.database, own.relation, own.mode, own.pid, own.transactionid
          from pg_locks as own
         where own.granted
    ),
    touched as materialized (
        select held.virtualtransaction,
               bool_or(held.mode in ('RowShareLock', 'RowExclusiveLock')) as writes,
               bool_or(held.relation <> 'awa.scheduled_jobs'::regclass) as reads
          from held
         where held.locktype = 'relation'
           and held.database = here
           and held.relation in (
               select 'awa.jobs_hot'::regclass::oid
               union all
               select 'awa.scheduled_jobs'::regclass
               union all
               select inherited.inhrelid from pg_inherits as inherited where inherited.inhparent = 'awa.jobs_hot'::regclass)
         group by held.virtualtransaction
    ),
    awaited as (
        select waited.virtualtransaction
          from awa.ring as ring
         cross join lateral unnest(ring.clean_waits_for) as waited (virtualtransaction)
         where ring.clean_generation = ring.oldest
    ),
    session as (
        select 'session' as what, null::text as name, open.pid, open.usename::text as user, open.application_name as application,
               open.state, greatest(age(open.backend_xid), age(open.backend_xmin)) as xids, open.xact_start as since, open.query_start as query_started_at, own.virtualtransaction,
               open.backend_xid is not null or open.backend_xmin is not null as pins, false as pins_catalogs
          from pg_stat_activity as open
          join held as own
            on own.pid = open.pid
           and own.locktype = 'virtualxid'
           and own.mode = 'ExclusiveLock'
         where open.datid = here
           and open.pid <> pg_backend_pid()
           -- VACUUM is in nobody's way, and ANALYZE is soon over.
           and open.backend_type is distinct from 'autovacuum worker'
           and (open.xact_start < now() - p_age
                or open.xact_start is null and greatest(age(open.backend_xid), age(open.backend_xmin)) >= hidden_age_min)
         order by open.xact_start, open.pid
         limit p_limit
    ),
    prepared as (
        select 'prepared' as what, waits.gid as name, null::integer as pid, waits.owner::text as user, null::text as application,
               null::text as state, age(waits.transaction) as xids, waits.prepared as since, null::timestamptz as query_started_at,
               own.virtualtransaction, true as pins, false as pins_catalogs
          from pg_prepared_xacts as waits
          left join held as own
            on own.locktype = 'transactionid'
           and own.pid is null
           and own.transactionid::text = waits.transaction::text
         where waits.database = current_database()
         order by waits.prepared
         limit p_limit
    ),
    slot as (
        select 'slot' as what, slot.slot_name::text as name, slot.active_pid as pid, null::text as user,
               slot.slot_type as application, case when slot.active then 'active' else 'inactive' end as state,
               greatest(age(slot.xmin), age(slot.catalog_xmin)) as xids, null::timestamptz as since,
               null::timestamptz as query_started_at, null::text as virtualtransaction,
               slot.xmin is not null as pins, true as pins_catalogs
          from pg_replication_slots as slot
         where slot.xmin is not null
            or slot.catalog_xmin is not null
         order by slot.slot_name
         limit p_limit
    ),
    replica as (
        -- One that reads from a slot has told the slot.
        select 'replica' as what, null::text as name, sender.pid, sender.usename::text as user,
               sender.application_name as application, sender.state, age(sender.backend_xmin) as xids,
               null::timestamptz as since, null::timestamptz as query_started_at, null::text as virtualtransaction,
               true as pins, false as pins_catalogs
          from pg_stat_replication as sender
         where sender.backend_xmin is not null
         order by sender.pid
         limit p_limit
    )
    select jsonb_agg(
               jsonb_build_object(
                   'what', open.what, 'name', open.name, 'pid', open.pid, 'user', open.user,
                   'application', open.application, 'state', open.state, 'since', open.since,
                   'query_started_at', open.query_started_at, 'xids', open.xids,
                   'holds', array_remove(array[
                       case when touched.writes then 'jobs' end,
                       case when touched.reads or exists (
                                select from awaited where awaited.virtualtransaction = open.virtualtransaction)
                            then 'ring' end,
                       case when open.pins then 'rows' end,
                       case when open.pins_catalogs then 'catalogs' end], null))
               order by open.since, open.what, open.name, open.pid)
      into found
      from (select * from session union all select * from prepared union all select * from slot
            union all select * from replica) as open
      left join touched on touched.virtualtransaction = open.virtualtransaction;
    return coalesce(found, '[]');
end
$$;
