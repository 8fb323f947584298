-- The poll of an idle process, one statement: has anything been inserted since, is the ring where it was, and, when a
-- beat is due, a sign of life.
--   p_worker  this process
--   p_beat    true to write the sign of life
-- registered is null without a beat, false when the process's row is gone (it must register again). Takes no transaction
-- id without a beat. Locks the process's own row.
create or replace function awa.pulse(
    p_worker uuid,
    p_beat boolean,
    out s bigint,
    out incarnation uuid,
    out oldest bigint,
    out current bigint,
    out registered boolean
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    select drawn.last_value - (not drawn.is_called)::integer into s from awa.job_seq as drawn;
    select here.id into incarnation from awa.incarnation as here;
    if incarnation is null then
        insert into awa.incarnation default values on conflict do nothing;
        select here.id into incarnation from awa.incarnation as here;
    end if;
    select ring.oldest, ring.current into oldest, current from awa.ring as ring;
    if p_beat then
        update awa.workers as worker set last_seen_at = now() where worker.id = p_worker;
        registered := found;
    end if;
end
$$;
