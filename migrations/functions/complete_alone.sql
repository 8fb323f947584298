-- Complete one running attempt that could not be completed with others.
--   The parameters and the answer are those of awa.complete_row.
-- Index: the primary keys. Locks the row, then its unique claim; waits a tenth of a second for each.
create or replace function awa.complete_alone(p_segment smallint, p_id bigint, p_lease bigint, p_result jsonb)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '100ms'
as $$
begin
    return awa.complete_row(p_segment, p_id, p_lease, p_result);
end
$$;
