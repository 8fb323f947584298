-- What the ring needs next, without writing anything.
-- rotate: the current segment is old (segment_age_max, else a sixth of the retention) or large, holds rows, and another one is free.
-- One that was opened in the future, before the clock was set back, counts as old.
-- rotate_in: seconds until it is old, should it hold rows by then; null where no other one is free.
-- recycle_in: seconds until the oldest segment is past the retention, with a small margin for what ended late; null while
-- only the current one is live. Reads one row and the size of one file; locks nothing.
create or replace function awa.look_at_ring(
    out oldest bigint,
    out current bigint,
    out rotate boolean,
    out rotate_in double precision,
    out recycle_in double precision
)
    language sql stable
    security definer
    set search_path = pg_catalog, pg_temp
return (
    select row(
        ring.oldest,
        ring.current,
        ring.current - ring.oldest < 7
            and size.bytes > 0
            and (size.bytes >= ring.segment_bytes_max or age.old_in <= interval '0'),
        case when ring.current - ring.oldest < 7 then extract(epoch from age.old_in) end::double precision,
        case when ring.oldest < ring.current
             then extract(epoch from ring.closed_at[ring.oldest % 8 + 1] + age.kept * 25 / 24 - now())
        end::double precision)
      from awa.ring as ring
     cross join lateral (
           -- For ever may be longer than the calendar.
           select least(ring.completed_retention, interval '1000 years') as kept,
                  case when ring.opened_at[ring.current % 8 + 1] > now() + interval '1 second' then interval '0'
                  else ring.opened_at[ring.current % 8 + 1]
                      + coalesce(ring.segment_age_max,
                                 greatest(least(ring.completed_retention, interval '1000 years') / 6, interval '1 second'))
                      - now() end as old_in
     ) as age
     cross join lateral pg_relation_size(format('awa.jobs_hot_%s', ring.current % 8)::regclass) as size (bytes)
);
