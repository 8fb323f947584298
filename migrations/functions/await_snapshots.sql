-- Must emptying a segment wait, since somebody's snapshot may be older than the last row that left it? A step of awa.recycle.
--   p_oldest  the oldest generation, just found to hold nothing but expired rows
-- TRUNCATE empties a table for every snapshot. A transaction whose snapshot is older than a move does not see the moved row in
-- its new place, and would see it in its old one no more: it would miss a live job. Such a transaction was open when the segment
-- was first found clean. These are noted then and waited for: until all have ended, or for snapshot_patience, or a twelfth of
-- the retention if that is shorter, so that a forgotten one does not keep the ring from turning.
-- Answers how many are waited for. Index: none. Locks the row of awa.ring when a generation is noted.
create or replace function awa.await_snapshots(p_oldest bigint) returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    ring awa.ring;
    open constant text[] := awa.open_transactions();
begin
    select found.* into ring from awa.ring as found;
    if ring.clean_generation is distinct from p_oldest then
        update awa.ring as found
           set clean_generation = p_oldest,
               clean_since = clock_timestamp(),
               clean_waits_for = open
         where found.oldest = p_oldest
        returning found.* into ring;
    end if;
    if clock_timestamp() >= ring.clean_since + least(ring.snapshot_patience, ring.completed_retention / 12) then
        return 0;
    end if;
    return cardinality(array(select unnest(ring.clean_waits_for) intersect select unnest(open)));
end
$$;
