-- Empty the part of active_claims that is not written to, looking at up to $1 batches under the lock. The function says
-- which index and locks.
select outcome as "outcome!",
       looked as "looked!",
       copied as "copied!"
  from awa.empty_claims($1)
