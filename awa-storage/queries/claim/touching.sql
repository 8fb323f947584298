-- Which of the transactions $1 hold a lock on a job table? Reads pg_locks. Locks nothing.
select xid as "xid!" from awa.touching($1) as xid
