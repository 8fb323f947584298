-- Append one entry to a job's error list and keep the newest 20; the entries dropped are counted.
--   p_errors   the list as it stands, or null
--   p_dropped  how many entries were dropped before, or null
--   p_entry    {at, attempt, lease, worker, source, error}; null leaves both as they are
-- Reads and locks nothing.
create or replace function awa.append_error(
    p_errors jsonb,
    p_dropped integer,
    p_entry jsonb,
    out errors jsonb,
    out dropped integer
)
    language plpgsql immutable parallel safe
    set search_path = pg_catalog, pg_temp
as $$
declare
    errors_max constant integer := 20;
begin
    errors := p_errors;
    dropped := p_dropped;
    if p_entry is null then
        return;
    end if;
    if errors is null or jsonb_typeof(errors) <> 'array' then
        errors := jsonb_build_array(p_entry);
        return;
    end if;
    errors := errors || jsonb_build_array(p_entry);
    while jsonb_array_length(errors) > errors_max loop
        errors := errors - 0;
        dropped := coalesce(dropped, 0) + 1;
    end loop;
end
$$;
