-- Whether a job has ended or is gone; null for null.
-- Index: the primary keys. Locks nothing.
create or replace function awa.has_ended(p_job_id bigint) returns boolean
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_job_id is null then
        return null;
    end if;
    return coalesce(awa.state_of(p_job_id) in ('completed', 'failed', 'cancelled'), true);
end
$$;
