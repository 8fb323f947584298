-- What ended jobs take, and what they will take if as many go on to end as of late and are kept as long as they are.
--   p_limit  parked rows of a state that are looked at, the newest first
-- One JSON object:
--   ring_bytes       the live segments with their indexes
--   ring_expected    what these will take: their growth, for the retention and what a segment takes longer to be emptied. It is that
--                    of the newest segments that cover a sixth of the retention; null until a twenty-fourth has passed
--   parked_bytes     the parked rows with their indexes
--   parked_expected  what failed and cancelled ones will take: as many as ended in the last twenty-fourth of their retention
--   expected         the sum, where what there is already counts if it is more
--   max              the setting expected_bytes_max; null for none
--   is_exceeded      whether expected is more than that
-- What a queue keeps for longer than the ring does is counted once it is parked.
-- Index: jobs_hot_parked_retention. Reads one row, and the sizes of files. Locks nothing.
create or replace function awa.expected_size(p_limit integer) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_sort = off
    set jit = off
as $$
declare
    -- For ever may be longer than the calendar, and more than bigint can hold.
    ever         constant interval := '1000 years';
    most         constant double precision := 9e18;
    sampled_max  constant integer := 100;
    -- Of a row beside the columns that are counted: header, what is of fixed length, entries in the indexes.
    row_overhead constant integer := 350;
    ring            awa.ring;
    kept            double precision;
    seen            record;
    parked          record;
    ring_bytes      bigint;
    ring_expected   double precision;
    parked_bytes    constant bigint := pg_total_relation_size('awa.jobs_hot_parked'::regclass);
    parked_expected double precision := 0;
    expected        double precision;
begin
    select found.* into ring from awa.ring as found;
    kept := extract(epoch from least(ring.completed_retention, ever));
    select sum(live.bytes) as bytes,
           sum(live.bytes) filter (where live.is_newest) as newest,
           extract(epoch from now() - min(live.opened_at) filter (where live.is_newest)) as covered
      into seen
      from (select pg_total_relation_size(format('awa.jobs_hot_%s', counted.generation % 8)::regclass) as bytes,
                   ring.opened_at[counted.generation % 8 + 1] as opened_at,
                   counted.generation = ring.current
                       or now() - ring.opened_at[(counted.generation + 1) % 8 + 1] < make_interval(secs => kept / 6) as is_newest
              from generate_series(ring.oldest, ring.current) as counted (generation)) as live;
    ring_bytes := seen.bytes;
    if seen.covered > 0 and seen.covered >= kept / 24 then
        ring_expected := least(most, seen.newest / seen.covered * (kept * 25 / 24
            + coalesce(extract(epoch from ring.segment_age_max), greatest(kept / 6, 1))));
    end if;
    for parked in
        select rule.state, extract(epoch from least(rule.kept, ever))::double precision as kept
          from (values ('failed'::awa.job_state, ring.failed_retention), ('cancelled', ring.cancelled_retention)) as rule (state, kept)
    loop
        select count(*) as number,
               case when count(*) < p_limit then parked.kept / 24
                    else greatest(extract(epoch from now() - min(newest.finalized_at)), 60) end as covered,
               avg(newest.bytes) as bytes
          into seen
          from (select job.finalized_at,
                       case when row_number() over (order by job.state desc, job.finalized_at desc, job.id desc) <= sampled_max
                            -- As they are stored: whatever is kept aside is not fetched.
                            then row_overhead + coalesce(pg_column_size(job.args), 0) + coalesce(pg_column_size(job.errors), 0)
                                + coalesce(pg_column_size(job.metadata), 0) + coalesce(pg_column_size(job.progress), 0)
                                + coalesce(pg_column_size(job.result), 0) + coalesce(pg_column_size(job.tags), 0) end as bytes
                  from awa.jobs_hot_parked as job
                 where job.state = parked.state
                   and job.finalized_at > now() - make_interval(secs => parked.kept / 24)
                   and job.finalized_at <= now()
                 order by job.state desc, job.finalized_at desc, job.id desc
                 limit p_limit) as newest;
        if seen.number > 0 and seen.covered > 0 then
            parked_expected := least(most, parked_expected + seen.number / seen.covered * parked.kept * seen.bytes);
        end if;
    end loop;
    expected := least(most, greatest(ring_bytes, coalesce(ring_expected, 0)) + greatest(parked_bytes, parked_expected));
    return jsonb_build_object(
        'ring_bytes', ring_bytes, 'ring_expected', round(ring_expected)::bigint,
        'parked_bytes', parked_bytes, 'parked_expected', round(parked_expected)::bigint,
        'expected', round(expected)::bigint, 'max', nullif(ring.expected_bytes_max, 0),
        'is_exceeded', coalesce(expected > nullif(ring.expected_bytes_max, 0), false));
end
$$;
