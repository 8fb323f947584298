-- Check the two options of an enqueue that are no part of the job: what to do on a conflict, and that it has one due time.
--   As the options of awa.enqueue; p_place comes before the name of the field in an error
-- Raises 22023; answers nothing. Reads no table.
create or replace function awa.check_policy(p_on_conflict text, p_run_at timestamptz, p_run_in numeric, p_place text default '')
    returns void
    language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $check_policy$
begin
    if p_on_conflict is null or p_on_conflict not in ('skip', 'replace', 'error') then
        perform awa.refuse(p_place || 'on_conflict', awa.excerpt(to_json(p_on_conflict)::text), 'skip, replace or error');
    elsif p_run_at is not null and p_run_in is not null then
        perform awa.refuse(p_place || 'run_in', awa.seconds(p_run_in), 'absent where run_at is given');
    end if;
end
$check_policy$;
