-- What the ring needs next, without writing anything.
-- rotate: the current segment is old (a sixth of the retention) or large, holds rows, and another one is free.
-- recycle_in: seconds until the oldest segment is past the retention, with a small margin for what ended late; null while
-- only the current one is live. Reads one row and the size of one file; locks nothing.
create or replace function awa.look_at_ring(
    out oldest bigint,
    out current bigint,
    out rotate boolean,
    out recycle_in double precision
)
    language sql stable
    set search_path = pg_catalog
return (
    select row(
        ring.oldest,
        ring.current,
        ring.current - ring.oldest < 7
            and size.bytes > 0
            and (size.bytes >= ring.segment_bytes_max
                 or ring.opened_at[ring.current % 8 + 1]
                        <= now() - greatest(ring.completed_retention / 6, interval '1 second')),
        case when ring.oldest < ring.current
             then extract(epoch from ring.closed_at[ring.oldest % 8 + 1] + ring.completed_retention * 25 / 24 - now())
        end::double precision)
      from awa.ring as ring
     cross join lateral pg_relation_size(format('awa.jobs_hot_%s', ring.current % 8)::regclass) as size (bytes)
);
