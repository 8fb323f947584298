-- Empty the part of active_claims that claims do not write to: batches of which attempts still run are copied to the other
-- part, less what has ended; the rest goes with TRUNCATE. An attempt that runs is listed throughout (I14).
--   p_newer_max  look again at most this many batches under the lock
-- outcome: empty (there was nothing), emptied, locked (somebody reads or writes the part: ask again), newer (too much came
-- in late: ask again). looked and copied count batches.
-- Whether attempts have ended is found out before the lock, which is safe since an ended attempt never runs again; under
-- it only batches that came in since are looked at. EXCLUSIVE first, which lets readers go on.
-- Index: primary keys of the segments. Locks: the part, waiting at most 50 ms for each step, and never for anything after.
do $install$
declare
    branches text;
begin
    select string_agg(replace($branch$
        when @ then
            if pg_relation_size('awa.active_claims_@'::regclass) = 0 then
                outcome := 'empty';
                return;
            end if;
            begin
                select unfinished.seen, unfinished.suspects
                  into seen, suspects
                  from awa.unfinished_claims(@::smallint) as unfinished;
                for batch in select claim.* from awa.active_claims_@ as claim where claim.id = any (suspects) loop
                    copied := copied + awa.copy_claim(batch);
                end loop;
                for attempt in 1..5 loop
                    begin
                        lock table awa.active_claims_@ in exclusive mode;
                        exit;
                    exception when lock_not_available then
                        if attempt = 5 then
                            raise;
                        end if;
                    end;
                end loop;
                -- A statement of its own: its snapshot follows the lock, so every batch that was written is visible.
                for batch in
                    select claim.*
                      from awa.active_claims_@ as claim
                     where not exists (select 1 from unnest(seen) as known (id) where known.id = claim.id)
                     limit p_newer_max + 1
                loop
                    newer := newer + 1;
                    copied := copied + awa.copy_claim(batch);
                end loop;
                if newer > p_newer_max then
                    raise sqlstate 'AW001';
                end if;
                lock table awa.active_claims_@ in access exclusive mode;
                truncate awa.active_claims_@;
                outcome := 'emptied';
            exception
                when lock_not_available or deadlock_detected then
                    outcome := 'locked';
                    copied := 0;
                when sqlstate 'AW001' then
                    outcome := 'newer';
                    copied := 0;
            end;$branch$, '@', part::text), '' order by part)
      into branches
      from generate_series(0, 1) as part;
    execute replace($function$
create or replace function awa.empty_claims(p_newer_max integer, out outcome text, out looked bigint, out copied bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set lock_timeout = '50ms'
as $body$
declare
    part     smallint;
    batch    awa.active_claims;
    seen     bigint[] := '{}';
    suspects bigint[];
    newer    integer := 0;
begin
    looked := 0;
    copied := 0;
    select 1 - ring.claims_part into part from awa.ring as ring;
    case part
        @branches
    end case;
    looked := cardinality(seen) + newer;
end
$body$
$function$, '@branches', branches);
end
$install$;
