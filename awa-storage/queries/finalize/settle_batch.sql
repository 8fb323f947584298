-- End attempts in any way but completion. $1 segments (hints), $2 ids, $3 leases, $4 outcomes, $5 delays in seconds, $6 errors,
-- $7 progress, $8 callbacks or null; sorted by id. Answers each id with its state, null where the lease is lost, and whether it
-- was left alone since it must take a unique key. The function says which index and locks.
select id as "id!",
       state as "state: awa_model::JobState",
       must_take_key as "must_take_key!"
  from awa.settle_batch($1, $2, $3, $4, $5, $6, $7::text[]::jsonb[], $8::uuid[])
