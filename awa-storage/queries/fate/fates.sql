-- What became of attempts that are held. $1 ids, $2 leases, same order. Answers those that do not run under their lease any
-- more, and why. Index: the primary key of each table. Locks nothing.
select id as "id!", run_lease as "run_lease!", why as "why!" from awa.fates($1, $2)
