-- Handle times of schedule $1, as it was at revision $2 with $3 next: those of $4 are fired, those from $5 to $6 left out, and
-- $7 is next. The function says which index and locks. No row where that is not so any more.
select slot as "slot!",
       outcome as "outcome!",
       job_id,
       error
  from awa.fire_schedule($1, $2, $3, $4, $5, $6, $7)
