-- Delete callbacks whose job is gone: those of jobs that went with their segment, or were deleted by hand.
--   p_after  go on behind this callback; null starts with the first
--   p_limit  how many to look at, at most
-- forgotten counts those deleted; last_id names the last one looked at, null when there are no more. Those that somebody has
-- locked are passed by.
-- Index: the primary keys. Locks what it deletes, waiting for nobody.
create or replace function awa.forget_callbacks(
    p_after uuid,
    p_limit integer,
    out forgotten integer,
    out last_id uuid
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
declare
    looked bigint;
    left_behind uuid[];
begin
    select count(*),
           (array_agg(known.id order by known.id desc))[1],
           array_agg(known.id) filter (where awa.state_of(known.job_id) is null)
      into looked, last_id, left_behind
      from (select kept.id, kept.job_id
              from awa.callbacks as kept
             where kept.id > coalesce(p_after, '00000000-0000-0000-0000-000000000000')
             order by kept.id
             limit p_limit) as known;
    delete from awa.callbacks as gone
     where gone.id = any (array(
           select known.id from awa.callbacks as known where known.id = any (left_behind) for update skip locked));
    get diagnostics forgotten = row_count;
    if looked < p_limit then
        last_id := null;
    end if;
end
$$;
