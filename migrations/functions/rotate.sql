-- Make the next segment of the ring current, so that inserts go there.
--   p_current  the generation that the caller found current: of two callers one advances the ring
-- The next segment was emptied when its last generation was recycled; strays that a late writer has put there since are
-- rows like any others. Answers false where the ring is full or somebody else was faster. Locks the row of awa.ring.
create or replace function awa.rotate(p_current bigint) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update awa.ring as ring
       set current = ring.current + 1,
           opened_at[(ring.current + 1) % 8 + 1] = now(),
           closed_at[(ring.current + 1) % 8 + 1] = null,
           closed_at[ring.current % 8 + 1] = now()
     where ring.current = p_current
       and ring.current - ring.oldest < 7;
    return found;
end
$$;
