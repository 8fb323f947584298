-- Empty the segment of the oldest generation $1, which rows above the settled mark $2 are looked for in once more; up to $3
-- rows in the way are moved. The function says which index and locks.
select outcome as "outcome!",
       moved as "moved!",
       reason
  from awa.recycle($1, $2, $3)
