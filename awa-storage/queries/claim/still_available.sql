-- Which found rows are still available? $1 places, $2 queues, $3 priorities, $4 segments, $5 seqs, same order.
-- Index: dispatch of each segment. Locks nothing.
select place as "place!" from awa.still_available($1, $2, $3, $4, $5) as place
