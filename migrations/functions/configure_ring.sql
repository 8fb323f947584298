-- Change settings of the ring and of retention; those that are not given stay as they are. They take effect at once, or when
-- the leader looks next, within seconds; no process needs a restart.
--   completed_retention, failed_retention, cancelled_retention
--                      how long ended jobs are kept, unless awa.set_retention says otherwise for their queue
--   segment_bytes_max  a segment that has grown this large is closed even if it is young
--   segment_age_max    one that has been current for so long is closed; 0: a sixth of completed_retention, as by default
--   snapshot_patience  how long emptying a segment waits for transactions older than the last row that left it
--   expected_bytes_max awa.status warns when ended jobs are expected to take more, at the present rate; 0: never
-- A value that cannot be is refused with 22023, and nothing is changed. Index: none. Locks the row of awa.ring.
create or replace function awa.configure_ring(
    completed_retention interval default null,
    failed_retention interval default null,
    cancelled_retention interval default null,
    segment_bytes_max bigint default null,
    segment_age_max interval default null,
    snapshot_patience interval default null,
    expected_bytes_max bigint default null
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    automatic constant interval := '0';
begin
    perform awa.check_span('completed_retention', completed_retention, '0', '1000 years', '0 to 1000 years'),
            awa.check_span('failed_retention', failed_retention, '0', '1000 years', '0 to 1000 years'),
            awa.check_span('cancelled_retention', cancelled_retention, '0', '1000 years', '0 to 1000 years'),
            awa.check_span('segment_age_max', nullif(segment_age_max, automatic), '1 second', '1000 years',
                           '0, or 1 second to 1000 years'),
            awa.check_span('snapshot_patience', snapshot_patience, '0', '1 day', '0 to 1 day');
    if segment_bytes_max < 8192 then
        raise exception 'segment_bytes_max is %; it must be at least 8192', segment_bytes_max
            using errcode = 'invalid_parameter_value';
    end if;
    if expected_bytes_max < 0 then
        raise exception 'expected_bytes_max is %; it must be at least 0', expected_bytes_max
            using errcode = 'invalid_parameter_value';
    end if;
    update awa.ring as ring
       set completed_retention = coalesce(completed_retention, ring.completed_retention),
           failed_retention = coalesce(failed_retention, ring.failed_retention),
           cancelled_retention = coalesce(cancelled_retention, ring.cancelled_retention),
           segment_bytes_max = coalesce(segment_bytes_max, ring.segment_bytes_max),
           segment_age_max = case when segment_age_max is null then ring.segment_age_max
                                  else nullif(segment_age_max, automatic) end,
           snapshot_patience = coalesce(snapshot_patience, ring.snapshot_patience),
           expected_bytes_max = coalesce(expected_bytes_max, ring.expected_bytes_max);
end
$$;
