-- The idle poll. $1 worker, $2 whether a sign of life is due. Locks the worker's row if it is.
select s as "seq!",
       incarnation as "incarnation!",
       oldest as "oldest!",
       current as "current!",
       registered
  from awa.pulse($1, $2)
