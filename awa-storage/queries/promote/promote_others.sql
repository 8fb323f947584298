-- Promote up to $5 due jobs of other queues than $1, of the $4 behind the row ($2, $3). The function says which index and locks.
select promoted as "promoted!",
       refused as "refused!",
       left_alone as "left_alone!",
       last_run_at as "last_run_at!",
       last_id as "last_id!",
       at_end as "at_end!",
       crowding
  from awa.promote_others($1, $2, $3, $4, $5)
