-- Let claims list their batches in the other part of active_claims, so that the one written so far can be emptied.
--   p_bytes    switch when the part written to is at least this large
--   p_seconds  and has been written to for at least this long
-- Only an empty part is switched to. Nothing is written where nothing is due. Answers whether it switched; of two callers
-- one does. A claim that began before goes on writing to the old part: awa.empty_claims copes. Locks the row of awa.ring.
create or replace function awa.switch_claims(p_bytes bigint, p_seconds double precision) returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    part smallint;
begin
    select ring.claims_part
      into part
      from awa.ring as ring
     where ring.claims_switched_at <= now() - make_interval(secs => p_seconds)
       and pg_relation_size(format('awa.active_claims_%s', ring.claims_part)::regclass) >= p_bytes
       and pg_relation_size(format('awa.active_claims_%s', 1 - ring.claims_part)::regclass) = 0;
    if part is null then
        return false;
    end if;
    update awa.ring as ring
       set claims_part = 1 - part,
           claims_switched_at = now()
     where ring.claims_part = part
       and pg_relation_size(format('awa.active_claims_%s', 1 - part)::regclass) = 0;
    return found;
end
$$;
