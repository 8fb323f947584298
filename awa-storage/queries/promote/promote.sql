-- Promote up to $3 due jobs behind the row ($1, $2); null starts at the head. The function says which index and locks.
select promoted as "promoted!",
       refused as "refused!",
       left_alone as "left_alone!",
       last_run_at,
       last_id,
       next_due_in,
       crowding
  from awa.promote($1, $2, $3)
