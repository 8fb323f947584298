-- A span of time as an error repeats it.
-- Reads no table.
create or replace function awa.seconds(p_seconds numeric)
    returns text
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $seconds$
begin
    return awa.excerpt(trim_scale(p_seconds)::text) || ' seconds';
end
$seconds$;
