-- End the waiting for up to $3 callbacks that nobody has answered in time, behind ($1, $2). The function says which index and
-- locks.
select ids as "ids!",
       states::text[] as "states!: Vec<Option<String>>",
       last_due,
       last_id,
       next_due_in
  from awa.expire_callbacks($1, $2, $3)
