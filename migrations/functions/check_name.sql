-- Refuse a text that cannot be the name of a queue, kind or tag, as Rust refuses it.
--   p_what  what the name is for, as errors call it
-- Reads and locks nothing.
create or replace function awa.check_name(p_what text, p_name text) returns void
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    fault constant text := awa.name_fault(p_what, p_name);
begin
    if fault is not null then
        perform awa.refuse_with(fault);
    end if;
end
$$;
