-- Take process $1 out. Locks its row.
select awa.unregister_worker($1) as "known!"
