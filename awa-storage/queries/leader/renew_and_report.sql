-- Hold duty $1 as $2 in term $3 for $4 more seconds, and tell with it what was done: $5. Locks the row, and those of awa.duties.
select awa.renew_and_report($1, $2, $3, $4, $5) as "renewed!"
