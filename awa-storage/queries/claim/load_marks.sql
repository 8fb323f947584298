-- Persisted marks of the lanes of the queues $1. Index: lane_marks_pkey. Locks nothing.
select queue as "queue!", priority as "priority!", seq as "seq!" from awa.load_marks($1)
