-- Complete a running attempt inside its handler's own transaction, which commits or rolls back both together.
--   The parameters are those of awa.complete_row.
-- Answers whether this transaction completes the job; false where the lease is lost, and where an earlier transaction has
-- completed it under the same lease: that one committed, though its caller may not know, and what it did must not be done
-- twice. May be repeated within one transaction.
-- Until that transaction ends the row stays locked: heartbeats of this attempt fail and are tried again, rescue passes it by.
-- A transaction above READ COMMITTED fails with serialization_failure where a heartbeat has changed the row since it began.
-- Index: the primary keys. Locks the row, then its unique claim; waits five seconds for each, since a heartbeat may have this
-- row in hand while it waits for another's.
create or replace function awa.complete_in(p_segment smallint, p_id bigint, p_lease bigint, p_result jsonb)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
    set lock_timeout = '5s'
as $$
declare
    half   constant bigint := 2147483648;
    recent bigint;
begin
    if not awa.complete_row(p_segment, p_id, p_lease, p_result) then
        return false;
    end if;
    recent := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    -- What a transaction sees of those in progress is its own, savepoints included. A row says in 32 bits who wrote it: of the
    -- transactions that this can be, the one next to the present is.
    return exists (
        select
          from awa.jobs_hot as job
         where job.id = p_id
           and job.run_lease = p_lease
           and job.state = 'completed'
           and pg_xact_status((recent - half + mod(job.xmin::text::bigint - mod(recent, 2 * half) + 3 * half, 2 * half))::text::xid8)
               = 'in progress');
end
$$;
