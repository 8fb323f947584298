-- Which of the transactions $1 are open and have written no job? Reads pg_locks. Locks nothing.
select xid as "xid!" from awa.idle_writers($1) as xid
