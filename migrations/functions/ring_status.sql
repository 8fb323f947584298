-- How the ring is doing, for people and dashboards: one row.
--   oldest, current         the live generations; generation g lies in segment g modulo 8
--   bytes, ages             of each live segment, the oldest first: its size with indexes, and how long ago it became current
--   parked_bytes, claims_bytes  of the parked rows, and of the list of claimed batches
--   rotate_in, recycle_in   until the next segment becomes current, and until the oldest is worth a try; null where that is out
--                           of the question; not above zero where it is due
--   reason, stuck_for       why the oldest segment could not be emptied when it was last tried, and since when there is such a
--                           reason; null when nothing is in the way
--   settings                as awa.configure_ring sets them
-- Reads one row and the sizes of files; locks nothing.
create or replace function awa.ring_status(
    out oldest bigint,
    out current bigint,
    out bytes bigint[],
    out ages interval[],
    out parked_bytes bigint,
    out claims_bytes bigint,
    out rotate_in interval,
    out recycle_in interval,
    out reason text,
    out stuck_for interval,
    out settings jsonb
)
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    ring awa.ring;
    next record;
begin
    select found.* into ring from awa.ring as found;
    select looked.rotate_in, looked.recycle_in into next from awa.look_at_ring() as looked;
    oldest := ring.oldest;
    current := ring.current;
    select array_agg(pg_total_relation_size(format('awa.jobs_hot_%s', live.generation % 8)::regclass)
                     order by live.generation),
           array_agg(now() - ring.opened_at[live.generation % 8 + 1] order by live.generation)
      into bytes, ages
      from generate_series(ring.oldest, ring.current) as live (generation);
    parked_bytes := pg_total_relation_size('awa.jobs_hot_parked'::regclass);
    claims_bytes := pg_total_relation_size('awa.active_claims_0'::regclass)
                    + pg_total_relation_size('awa.active_claims_1'::regclass);
    rotate_in := make_interval(secs => next.rotate_in);
    recycle_in := make_interval(secs => next.recycle_in);
    reason := ring.stuck_reason;
    stuck_for := now() - ring.stuck_since;
    if reason is null and recycle_in < interval '-1 minute'
        and not exists (select from awa.current_leader())
        and not awa.has_ticks()
    then
        reason := 'no process that takes part in maintenance is alive';
        stuck_for := - recycle_in;
    end if;
    settings := jsonb_build_object(
        'completed_retention', ring.completed_retention,
        'failed_retention', ring.failed_retention,
        'cancelled_retention', ring.cancelled_retention,
        'segment_bytes_max', ring.segment_bytes_max,
        'segment_age_max', ring.segment_age_max,
        'snapshot_patience', ring.snapshot_patience,
        'expected_bytes_max', ring.expected_bytes_max);
end
$$;
