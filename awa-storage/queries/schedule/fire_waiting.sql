-- Enqueue the job of schedule $1 that waits for an earlier one, if that has ended. The function says which index and locks.
select slot as "slot!",
       outcome as "outcome!",
       job_id,
       error
  from awa.fire_waiting($1)
