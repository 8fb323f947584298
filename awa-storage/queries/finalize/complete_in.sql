-- Complete one attempt in the caller's own transaction. $1 segment (a hint), $2 id, $3 lease, $4 result. False where the lease is
-- lost. The function says which index and locks.
select awa.complete_in($1, $2, $3, $4::text::jsonb) as "applied!"
