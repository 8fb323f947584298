-- Delete callbacks whose job is gone, among $2 behind $1. The function says which index and locks.
select forgotten as "forgotten!",
       last_id
  from awa.forget_callbacks($1, $2)
