-- Look once at a stretch of each lane. $1 queues, $2 priorities, $3 lows, $4 highs, $5 optimistic cursors, $6 kinds (null for
-- all), $7 rows a lane and segment. Index: dispatch of each segment. Locks nothing.
select lane as "lane!",
       reached as "reached!",
       looked as "looked!",
       found_seqs as "found_seqs!",
       found_segments as "found_segments!",
       beyond_segments as "beyond_segments!",
       other
  from awa.look($1, $2, $3, $4, $5, $6, $7)
