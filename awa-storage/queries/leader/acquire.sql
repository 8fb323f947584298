-- Take duty $1 for holder $2 for $3 seconds. Locks the row only if it is free.
select awa.acquire_leadership($1, $2, $3) as term
