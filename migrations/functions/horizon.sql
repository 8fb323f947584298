-- One step of the settled horizon: which transactions are open, how far the sequence is drawn, and a mark above both.
--   p_known  the last S this process has marked; an unchanged S takes no transaction id
-- The order of the three statements is the proof (docs/adr/0002): a row numbered up to S was drawn before S was read, its
-- inserter had its transaction id before it drew, hence an id below X. Reads one-row tables; locks nothing.
create or replace function awa.horizon(
    p_known bigint,
    out open bigint[],
    out s bigint,
    out x bigint,
    out incarnation uuid,
    out oldest bigint,
    out current bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    open := array(select xip::text::bigint from pg_snapshot_xip(pg_current_snapshot()) as xip);
    -- A fresh sequence says 1 before 1 is drawn.
    select drawn.last_value - (not drawn.is_called)::integer into s from awa.job_seq as drawn;
    if s <> p_known then
        x := pg_current_xact_id()::text::bigint;
    end if;
    select here.id into incarnation from awa.incarnation as here;
    if incarnation is null then
        insert into awa.incarnation default values on conflict do nothing;
        select here.id into incarnation from awa.incarnation as here;
    end if;
    select ring.oldest, ring.current into oldest, current from awa.ring as ring;
end
$$;
