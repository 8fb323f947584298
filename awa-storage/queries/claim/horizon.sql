-- One observation of the horizon. $1 the last S that was marked. Locks nothing; a transaction id only if S has moved.
select open as "open!",
       s as "seq!",
       x as xid,
       incarnation as "incarnation!",
       oldest as "oldest!",
       current as "current!"
  from awa.horizon($1)
