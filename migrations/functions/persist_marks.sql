-- Remember how far each lane is settled for every kind, so that a new process starts there. A mark never goes down.
--   p_queues, p_priorities, p_seqs  the lanes and their marks, same order, sorted
-- Locks one row a lane whose mark moved.
create or replace function awa.persist_marks(p_queues text[], p_priorities smallint[], p_seqs bigint[]) returns void
    language sql volatile
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    insert into awa.lane_marks as mark (queue, priority, seq)
    select lane.queue, lane.priority, lane.seq
      from unnest(p_queues, p_priorities, p_seqs) as lane (queue, priority, seq)
     order by lane.queue, lane.priority
        on conflict (queue, priority) do update
       set seq = excluded.seq
     where mark.seq < excluded.seq
$$;
