-- How far the lanes of these queues are settled, as awa.persist_marks left it: where a new process starts to look.
--   p_queues  the queues
-- Index: lane_marks_pkey. Locks nothing.
create or replace function awa.load_marks(p_queues text[]) returns table (queue text, priority smallint, seq bigint)
    language sql stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select mark.queue, mark.priority, mark.seq from awa.lane_marks as mark where mark.queue = any (p_queues)
$$;
