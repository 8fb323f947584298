-- A span of time as an error repeats it.
-- Reads no table; runs under its caller's search path.
create or replace function awa.seconds(p_seconds numeric)
    returns text
    language plpgsql immutable
as $seconds$
begin
    return awa.excerpt(trim_scale(p_seconds)::text) || ' seconds';
end
$seconds$;
