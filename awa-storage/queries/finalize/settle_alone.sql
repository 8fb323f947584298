-- End one attempt in any way but completion, whoever holds its unique key. $1 segment (a hint), $2 id, $3 lease, $4 outcome,
-- $5 delay in seconds, $6 error, $7 progress, $8 callback. Null where the lease is lost. The function says which index and locks.
select awa.settle_alone($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8::uuid) as "state: awa_model::JobState"
