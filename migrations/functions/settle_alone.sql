-- End one running attempt in any way but completion, whoever holds the unique key that its next state needs.
--   p_segment      where the row was last seen: a hint
--   p_id, p_lease  the job and its run_lease
--   The others     as for awa.settle_rows
-- Where another job holds the key, the attempt ends in this one step all the same: cancelled as a duplicate, or as it would
-- have ended anyway if that is failed or cancelled; its error entry names the holder.
-- A park whose answer has come already does not wait: the job is available.
-- Answers the state it is in now, or null where the lease is lost. May be repeated, as awa.settle_rows says.
-- Index: the primary keys. Locks the row, then its unique claim; waits a tenth of a second for each. An open transaction that
-- has the key in hand lets it fail with lock_not_available: ask again.
create or replace function awa.settle_alone(
    p_segment smallint,
    p_id bigint,
    p_lease bigint,
    p_outcome text,
    p_delay double precision,
    p_error text,
    p_progress jsonb,
    p_callback uuid
)
    returns awa.job_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
    set lock_timeout = '100ms'
as $$
declare
    -- A holder can let go between the conflict and the look at who it is; it cannot do so for ever.
    rounds_max constant integer := 8;
    conflict   text;
begin
    for round in 1..rounds_max loop
        begin
            return (select settled.state
                      from awa.settle_rows(array[p_segment], array[p_id], array[p_lease], array[p_outcome],
                                           array[p_delay], array[p_error], array[p_progress], array[p_callback],
                                           null) as settled);
        exception when unique_violation then
            get stacked diagnostics conflict = message_text;
        end;
        exit when conflict !~ '<NULL>';
    end loop;
    return (select settled.state
              from awa.settle_rows(array[p_segment], array[p_id], array[p_lease], array[p_outcome], array[p_delay],
                                   array[p_error], array[p_progress], array[p_callback], conflict) as settled);
end
$$;
