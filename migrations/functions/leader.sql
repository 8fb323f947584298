-- Who does a duty. A term belongs to one holder until it expires by the database's clock; (holder, term) guards every
-- write as a run_lease does, so that a former leader changes nothing.

-- Take the duty if nobody holds it.
--   p_duty, p_holder, p_seconds  the duty, who asks, how long the term lasts
-- Answers the new term, or null where somebody else, or the asker itself in an earlier term, still holds it. One that was last
-- renewed in what is the future now, by more than a term, holds nothing: the clock was set back, and its holder would have
-- renewed it since then.
-- Index: primary key. Locks the duty's row, but only when it is free: asking in vain takes no transaction id.
create or replace function awa.acquire_leadership(p_duty text, p_holder uuid, p_seconds double precision) returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    won bigint;
begin
    if exists (select 1 from awa.leader as held where held.duty = p_duty and held.expires_at > now()
                  and held.renewed_at <= now() + make_interval(secs => p_seconds)) then
        return null;
    end if;
    insert into awa.leader as held (duty, holder, term, expires_at)
    values (p_duty, p_holder, 1, now() + make_interval(secs => p_seconds))
        on conflict (duty) do update
       set holder = excluded.holder,
           term = held.term + 1,
           elected_at = now(),
           renewed_at = now(),
           expires_at = excluded.expires_at
     where held.expires_at <= now()
        or held.renewed_at > now() + make_interval(secs => p_seconds)
    returning held.term into won;
    return won;
end
$$;

-- Hold the duty for longer. False where the term is over, whether somebody else has taken the duty or not.
--   p_duty, p_holder, p_term, p_seconds  the duty, who holds it, in which term, how long from now
-- Index: primary key. Locks the duty's row.
create or replace function awa.renew_leadership(
    p_duty text,
    p_holder uuid,
    p_term bigint,
    p_seconds double precision
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update awa.leader as held
       set renewed_at = now(),
           expires_at = now() + make_interval(secs => p_seconds)
     where held.duty = p_duty
       and held.holder = p_holder
       and held.term = p_term
       and held.expires_at > now();
    return found;
end
$$;

-- Give the duty up, so that another process need not wait for the term to expire. False where it was lost before.
--   p_duty, p_holder, p_term  the duty, who holds it, in which term
-- Index: primary key. Locks the duty's row.
create or replace function awa.resign_leadership(p_duty text, p_holder uuid, p_term bigint) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update awa.leader as held
       set expires_at = now()
     where held.duty = p_duty
       and held.holder = p_holder
       and held.term = p_term
       and held.expires_at > now();
    return found;
end
$$;
