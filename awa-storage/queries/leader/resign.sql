-- Give up duty $1, held by $2 in term $3. Locks the row.
select awa.resign_leadership($1, $2, $3) as "resigned!"
