-- Persisted marks of the lanes of the queues $1. Index: lane_marks_pkey. Locks nothing.
select queue, priority, seq from awa.lane_marks where queue = any ($1)
