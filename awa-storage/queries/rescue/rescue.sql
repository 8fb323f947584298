-- Rescue overdue attempts of the claimed batches behind $1 until $2 are rescued. $3 seconds that a worker, $4 that an
-- attempt may be silent, $5 grace after a deadline, $6 budget in seconds. The function says which index and locks.
select ids as "ids!",
       leases as "leases!",
       reasons as "reasons!",
       states::text[] as "states!: Vec<Option<String>>",
       next_after
  from awa.rescue($1, $2, $3, $4, $5, $6)
