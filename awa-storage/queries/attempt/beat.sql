-- A sign of life. $1 segments (hints), $2 ids, $3 leases, $4 progress or null; sorted by id. Answers the ids whose lease is
-- lost. Index: the primary key of each segment. Locks the rows, a second at most.
select id as "id!" from awa.beat($1, $2, $3, $4::text[]::jsonb[]) as id
