-- In which order a claim visits the segments for one queue: pairs of priorities and a segment.
--   p_oldest, p_current   the live generations
--   p_skips               four masks, one a priority: segments known to hold nothing beyond the cursor
--   p_queue               place of the queue in the claim, to pick its found rows
--   p_found_*             as given to the claim
-- Where every lane has only the current segment to visit, one step takes all four priorities. Otherwise priority by
-- priority: segments that claims no longer visit but where a look found a row, then the live ones from old to new.
-- Pure: reads and locks nothing.
create or replace function awa.claim_steps(
    p_oldest bigint,
    p_current bigint,
    p_skips smallint[],
    p_queue integer,
    p_found_queues integer[],
    p_found_priorities smallint[],
    p_found_segments smallint[]
)
    returns table (priorities smallint[], place integer)
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    live    integer := 0;
    closed  integer := 0;
    found   integer[] := array[0, 0, 0, 0];
    wanted  integer;
    newest  constant integer := (p_current % 8)::integer;
begin
    for generation in p_oldest..p_current loop
        live := live | (1 << (generation % 8)::integer);
    end loop;
    closed := live & ~(1 << newest);
    for i in 1..cardinality(p_found_queues) loop
        if p_found_queues[i] = p_queue then
            found[p_found_priorities[i]] := found[p_found_priorities[i]] | (1 << p_found_segments[i]);
        end if;
    end loop;
    if ((closed & ~(p_skips[1] & p_skips[2] & p_skips[3] & p_skips[4]))
        | ((found[1] | found[2] | found[3] | found[4]) & ~(1 << newest))) = 0 then
        priorities := array[1, 2, 3, 4];
        place := newest;
        return next;
        return;
    end if;
    for level in 1..4 loop
        priorities := array[level];
        wanted := (live & ~p_skips[level]) | found[level] | (1 << newest);
        for turn in 0..7 loop
            -- Segments outside the ring come first in this order: they are the oldest.
            place := ((p_current + 1 + turn) % 8)::integer;
            if wanted & (1 << place) <> 0 then
                return next;
            end if;
        end loop;
    end loop;
end
$$;
