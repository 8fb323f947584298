-- End running attempts in any way but completion; those that must take a unique key are left to awa.settle_alone.
--   The parameters are those of awa.settle_rows.
-- Answers each id with the state it is in now, or null where the lease is lost; must_take_key tells, with a null state, an
-- attempt that was not touched. So a key that another job holds, or a user's open transaction, is in nobody else's way.
-- Index: the primary keys. Locks as awa.settle_rows does; waits at most a quarter of a second for another's lock: the caller
-- then tries smaller batches.
create or replace function awa.settle_batch(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_outcomes text[],
    p_delays double precision[],
    p_errors text[],
    p_progress jsonb[],
    p_callbacks uuid[]
)
    returns table (id bigint, state awa.job_state, must_take_key boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
    set lock_timeout = '250ms'
as $$
#variable_conflict use_column
declare
    takers constant bigint[] := awa.must_take_key(p_segments, p_ids, p_leases, p_outcomes);
    others integer[];
begin
    if cardinality(takers) = 0 then
        return query
        select settled.id, settled.state, false
          from awa.settle_rows(p_segments, p_ids, p_leases, p_outcomes, p_delays, p_errors, p_progress,
                               p_callbacks, null) as settled;
        return;
    end if;
    others := array(select wanted.place::integer
                      from unnest(p_ids) with ordinality as wanted (id, place)
                     where wanted.id <> all (takers)
                     order by wanted.place);
    if cardinality(others) > 0 then
        return query
        select settled.id, settled.state, false
          from awa.settle_rows(array(select p_segments[place] from unnest(others) as place),
                               array(select p_ids[place] from unnest(others) as place),
                               array(select p_leases[place] from unnest(others) as place),
                               array(select p_outcomes[place] from unnest(others) as place),
                               array(select p_delays[place] from unnest(others) as place),
                               array(select p_errors[place] from unnest(others) as place),
                               array(select p_progress[place] from unnest(others) as place),
                               array(select p_callbacks[place] from unnest(others) as place), null) as settled;
    end if;
    return query
    select taker.id, null::awa.job_state, true from unnest(takers) as taker (id);
end
$$;
