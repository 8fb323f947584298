-- Walk up to $3 rows of segment $1 behind id $2; attempts silent for $4 seconds are suspect. The function says which index
-- and locks.
select looked as "looked!",
       next_segment,
       next_after,
       passed_by as "passed_by!",
       unlisted as "unlisted!",
       doubled as "doubled!"
  from awa.audit($1, $2, $3, $4)
