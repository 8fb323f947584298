-- Which transactions of sessions are open in this database, other than the one that asks? As virtual transaction ids, which every
-- transaction has, whether or not it writes, and which are never given out again while the server runs.
-- Needs no privilege: pg_locks hides nothing, and pg_stat_activity shows everybody the database of a session.
-- Reads what is in shared memory; locks nothing.
create or replace function awa.open_transactions() returns text[]
    language sql volatile
    set search_path = pg_catalog, pg_temp
return array(
    select held.virtualtransaction
      from pg_locks as held
      join pg_stat_activity as session on session.pid = held.pid
     where held.locktype = 'virtualxid'
       and held.mode = 'ExclusiveLock'
       and held.granted
       and held.pid <> pg_backend_pid()
       -- What the server does by itself, as autovacuum, belongs to no role and reads jobs for nobody.
       and session.usesysid is not null
       and session.datid = (select database.oid from pg_database as database where database.datname = current_database())
     order by held.virtualtransaction
);
