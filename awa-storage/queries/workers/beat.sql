-- A sign of life of process $1. Locks its row.
select awa.beat_worker($1) as "known!"
