-- How the ring is doing. Spans in seconds. Reads one row and the sizes of files; locks nothing.
select oldest as "oldest!",
       current as "current!",
       bytes as "bytes!",
       array(select extract(epoch from age)::double precision from unnest(ages) as age) as "ages!",
       parked_bytes as "parked_bytes!",
       claims_bytes as "claims_bytes!",
       extract(epoch from rotate_in)::double precision as rotate_in,
       extract(epoch from recycle_in)::double precision as recycle_in,
       reason,
       extract(epoch from stuck_for)::double precision as stuck_for,
       extract(epoch from (settings ->> 'completed_retention')::interval)::double precision as "completed_retention!",
       extract(epoch from (settings ->> 'failed_retention')::interval)::double precision as "failed_retention!",
       extract(epoch from (settings ->> 'cancelled_retention')::interval)::double precision as "cancelled_retention!",
       (settings ->> 'segment_bytes_max')::bigint as "segment_bytes_max!",
       extract(epoch from (settings ->> 'segment_age_max')::interval)::double precision as segment_age_max,
       extract(epoch from (settings ->> 'snapshot_patience')::interval)::double precision as "snapshot_patience!",
       (settings ->> 'expected_bytes_max')::bigint as "expected_bytes_max!"
  from awa.ring_status()
