-- Promote up to $3 due jobs behind the row ($1, $2); null starts at the head. With $4 say as well when a schedule asks for something,
-- which cannot fail. The functions say which index and locks.
select promoted as "promoted!",
       refused as "refused!",
       left_alone as "left_alone!",
       last_run_at,
       last_id,
       next_due_in,
       crowding,
       case when $4 then awa.schedules_due_in() end as schedules_due_in
  from awa.promote($1, $2, $3)
