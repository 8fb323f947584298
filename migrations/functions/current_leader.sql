-- Who leads now: one row, or none. A term that was last renewed in what is the future now, by more than a term, is over: the clock
-- was set back, and its holder would have renewed it since then (awa.acquire_leadership gives the place away).
-- Index: the primary key. Locks nothing.
create or replace function awa.current_leader() returns setof awa.leader
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select held.*
      from awa.leader as held
     where held.duty = 'maintenance'
       and held.expires_at > now()
       and held.renewed_at <= now() + (held.expires_at - held.renewed_at)
$$;

-- Whether the fleet lives by ticks, and needs no leader: one has done a duty within the hour, and no leader did since then.
-- Reads awa.duties through. Locks nothing.
create or replace function awa.has_ticks() returns boolean
    language sql stable
    set search_path = pg_catalog, pg_temp
return exists (
    select
      from awa.duties as told
     where told.term is null
       and told.ended_at > now() - interval '1 hour'
       -- Not in what is the future now, by a clock that was set back.
       and told.ended_at < now() + interval '1 minute'
);
