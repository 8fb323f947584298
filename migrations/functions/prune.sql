-- Delete parked rows of one state that are past their retention: of their queue, else of the ring's settings.
--   p_state                       completed, failed or cancelled
--   p_after_finalized, p_after_id go on behind this row; null starts with the oldest
--   p_limit                       delete at most this many, look at ten times as many
-- pruned counts deleted rows; last_finalized and last_id name the last row looked at, null when there are no more that could
-- be due. Rows that a queue keeps for longer are passed by, and so are rows that somebody has locked, or whose callback or unique
-- claim he has. Their callbacks go with them.
-- Index: jobs_hot_parked_retention, callbacks_job. Locks: the rows, then as awa.lock_belongings; waits for nobody.
create or replace function awa.prune_parked(
    p_state awa.job_state,
    p_after_finalized timestamptz,
    p_after_id bigint,
    p_limit integer,
    out pruned integer,
    out last_finalized timestamptz,
    out last_id bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
    set lock_timeout = '50ms'
as $$
#variable_conflict use_column
declare
    -- Every interval is capped: for ever may be longer than the calendar.
    ever     constant interval := interval '1000 years';
    ordinary interval;
    shortest interval;
    row      record;
    tuples   tid[] := '{}';
    ids      bigint[] := '{}';
    keys     bytea[] := '{}';
    looked   integer := 0;
    is_full  boolean;
begin
    pruned := 0;
    select case p_state when 'completed' then ring.completed_retention
                        when 'failed' then ring.failed_retention
                        when 'cancelled' then ring.cancelled_retention end
      into ordinary
      from awa.ring as ring;
    if ordinary is null then
        return;
    end if;
    ordinary := least(ordinary, ever);
    select least(ordinary, min(case p_state when 'completed' then setting.completed_retention
                                            when 'failed' then setting.failed_retention
                                            else setting.cancelled_retention end))
      into shortest
      from awa.queues as setting;
    for row in
        select parked.ctid as tuple, parked.id, parked.finalized_at, parked.unique_key,
               parked.finalized_at < now() - least(ever, coalesce(
                   (select case p_state when 'completed' then setting.completed_retention
                                        when 'failed' then setting.failed_retention
                                        else setting.cancelled_retention end
                      from awa.queues as setting
                     where setting.name = parked.queue), ordinary)) as due
          from awa.jobs_hot_parked as parked
         where parked.state = p_state
           and (parked.finalized_at, parked.id)
                   > (coalesce(p_after_finalized, '-infinity'), coalesce(p_after_id, -9223372036854775808))
           and parked.finalized_at < now() - shortest
         order by parked.state, parked.finalized_at, parked.id
         limit p_limit::bigint * 10
    loop
        looked := looked + 1;
        last_finalized := greatest(row.finalized_at, '0001-01-01 00:00:00+00');
        last_id := row.id;
        if row.due then
            tuples := tuples || row.tuple;
            exit when cardinality(tuples) >= p_limit;
        end if;
    end loop;
    -- By what was found: that somebody has one of them locked says nothing of those behind.
    is_full := cardinality(tuples) >= p_limit or looked >= p_limit::bigint * 10;
    if cardinality(tuples) > 0 then
        select array_agg(locked.id), array_agg(case when locked.holds then locked.unique_key end)
          into ids, keys
          from (select parked.id, parked.unique_key, (parked.unique_states & awa.state_bit(p_state)) <> 0 as holds
                  from awa.jobs_hot_parked as parked
                 where parked.ctid = any (tuples)
                   for update skip locked) as locked;
        ids := awa.lock_belongings(ids, keys);
        delete from awa.callbacks as callback where callback.job_id = any (ids);
        delete from awa.jobs_hot_parked as parked where parked.id = any (ids);
        get diagnostics pruned = row_count;
    end if;
    if not is_full then
        last_finalized := null;
        last_id := null;
    end if;
end
$$;
