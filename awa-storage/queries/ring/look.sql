-- What does the ring need next? Reads one row and the size of one file; locks nothing.
select oldest as "oldest!",
       current as "current!",
       rotate as "rotate!",
       rotate_in,
       recycle_in
  from awa.look_at_ring()
