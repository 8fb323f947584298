-- Hold duty $1 as $2 in term $3 for $4 more seconds. Locks the row.
select awa.renew_leadership($1, $2, $3, $4) as "renewed!"
