-- Complete a running attempt inside its handler's own transaction, which commits or rolls back both together.
--   The parameters and the answer are those of awa.complete_row.
-- Until that transaction ends the row stays locked: heartbeats of this attempt fail and are tried again, rescue passes it by.
-- A transaction above READ COMMITTED fails with serialization_failure where a heartbeat has changed the row since it began.
-- Index: the primary keys. Locks the row, then its unique claim; waits five seconds for each, since a heartbeat may have this
-- row in hand while it waits for another's.
create or replace function awa.complete_in(p_segment smallint, p_id bigint, p_lease bigint, p_result jsonb)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '5s'
as $$
begin
    return awa.complete_row(p_segment, p_id, p_lease, p_result);
end
$$;
