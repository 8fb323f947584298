-- Check that a due time lies in the years 1 to 9999, which every client can read.
--   p_run_at  the time, not null; p_place: comes before the name of the field in the error
-- Raises 22023; answers nothing. Reads no table.
create or replace function awa.check_run_at(p_run_at timestamptz, p_place text)
    returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $check_run_at$
declare
    allowed constant text := 'in the years 1 to 9999';
    year    integer;
begin
    if not isfinite(p_run_at) then
        perform awa.refuse(p_place || 'run_at', p_run_at::text, allowed);
    end if;
    year := extract(year from p_run_at at time zone 'UTC');
    if year not between 1 and 9999 then
        -- There is no year 0 here: 1 BC is -1. Counted as clients do, it is 0.
        perform awa.refuse(p_place || 'run_at',
                           format('in the year %s', case when year < 0 then year + 1 else year end), allowed);
    end if;
end
$check_run_at$;
