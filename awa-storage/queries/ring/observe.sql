-- One observation of the horizon, for the mark that recycling needs. $1 the last number marked. Locks nothing; takes a
-- transaction id only if the sequence has moved.
select open as "open!",
       s as "seq!",
       x as xid,
       incarnation as "incarnation!"
  from awa.horizon($1)
