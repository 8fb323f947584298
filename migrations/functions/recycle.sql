-- Empty the oldest segment of the ring by TRUNCATE once it holds nothing but completed rows past their retention (I7).
--   p_oldest    the generation that the caller found oldest
--   p_settled   a settled mark: every row numbered up to it is visible, or never will be
--   p_move_max  a few rows in the way are moved on (awa.move_rows); more than this are left to drain
-- outcome: recycled; moved (ask again); locked (somebody uses the table: ask again, later); snapshots (transactions are open
-- that may still see rows where they lay before they moved: ask again); waiting, for a reason, which is in
-- awa.ring.stuck_reason too; raced (somebody else was faster).
-- Without a lock the whole segment is read; under EXCLUSIVE, which lets readers go on, only what is newer than the mark.
-- That is enough: rows up to the mark were visible to the reading, and a completed row does not change. The keys of expired
-- rows are released before the lock, in key order.
-- Locks: the segment, waiting at most 50 ms for each step, so that nobody queues behind this for longer; then the row of
-- awa.ring. Whoever it meets the other way round is let go by the time limit.
create or replace function awa.recycle(
    p_oldest bigint,
    p_settled bigint,
    p_move_max integer,
    out outcome text,
    out moved bigint,
    out reason text
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set lock_timeout = '50ms'
as $$
declare
    place     constant smallint := p_oldest % 8;
    ring      awa.ring;
    ended_by  timestamptz;
    longer    text[];
    kept      record;
    -- Null where rows are in the way.
    readers   integer;
    was_clean boolean;
begin
    moved := 0;
    select found.* into ring from awa.ring as found;
    if ring.oldest <> p_oldest or ring.oldest >= ring.current then
        outcome := 'raced';
        return;
    end if;
    ended_by := now() - least(ring.completed_retention, interval '1000 years');
    longer := array(select setting.name
                      from awa.queues as setting
                     where setting.completed_retention > ring.completed_retention);
    kept := awa.find_kept(place, ended_by, longer, p_move_max + 1);
    if cardinality(kept.live) + cardinality(kept.fresh) + cardinality(kept.long) = 0 then
        readers := awa.await_snapshots(p_oldest);
        if readers > 0 then
            outcome := 'snapshots';
            reason := format('segment %s: transactions that began before its last rows left are open (%s)', place, readers);
        else
            select truncation.outcome, truncation.reason
              into outcome, reason
              from awa.truncate_oldest(p_oldest, p_settled, ended_by, longer) as truncation;
        end if;
    elsif cardinality(kept.live) + cardinality(kept.fresh) + cardinality(kept.long) <= p_move_max then
        moved := awa.move_each(place, kept.live || kept.fresh || kept.long);
    else
        -- Rows that are kept for long would never go by themselves, however many there are.
        moved := awa.move_each(place, kept.long);
    end if;
    if outcome is null then
        outcome := case when moved > 0 then 'moved' else 'waiting' end;
        if moved = 0 then
            reason := format('segment %s: %s', place,
                case when cardinality(kept.live) + cardinality(kept.fresh) + cardinality(kept.long) <= p_move_max
                     then 'rows in the way could not be moved, they are locked or refused by a trigger'
                     when cardinality(kept.live) > 0 then format('a backlog of more than %s jobs has to drain', p_move_max)
                     else format('more than %s jobs ended late and are within their retention', p_move_max) end);
        end if;
    end if;
    was_clean := readers is not null and outcome <> 'waiting';
    update awa.ring as found
       set stuck_reason = reason,
           stuck_since = case when reason is not null then coalesce(found.stuck_since, now()) end,
           -- Rows leave: whoever may still see them here is noted when the segment is found clean again.
           clean_generation = case when was_clean then found.clean_generation end
     where found.oldest = p_oldest
       and (found.stuck_reason is distinct from reason
            or (found.clean_generation is not null and not was_clean));
end
$$;
