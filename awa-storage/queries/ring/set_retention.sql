-- Say how long ended jobs of queue $1 are kept: completed $2, failed $3, cancelled $4, in seconds; null for what the ring says.
-- The function says which index and locks.
select awa.set_retention($1, make_interval(secs => $2), make_interval(secs => $3), make_interval(secs => $4)) as done
