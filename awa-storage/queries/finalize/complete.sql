-- Complete attempts of one segment. $1 segment, $2 tuple ids, $3 ids, $4 leases, $5 results or null; sorted by id. Answers the
-- ids whose lease is lost. Index: the primary key. Locks the rows, a second at most.
select id as "id!" from awa.complete($1, $2, $3, $4, $5::text[]::jsonb[]) as id
