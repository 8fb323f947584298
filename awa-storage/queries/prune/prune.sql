-- Delete up to $4 parked rows of state $1 past their retention, behind the row ($2, $3). The function says which index and
-- locks.
select pruned as "pruned!",
       last_finalized,
       last_id
  from awa.prune_parked($1, $2, $3, $4)
