-- What became of a job: one row, or none where there is no such job any more, or not yet.
-- The columns are those of awa.job_statuses. Index: the primary keys. Locks nothing.
create or replace function awa.job_status(
    inout job_id bigint,
    out kind text,
    out queue text,
    out state awa.job_state,
    out priority smallint,
    out attempt smallint,
    out max_attempts smallint,
    out run_at timestamptz,
    out created_at timestamptz,
    out attempted_at timestamptz,
    out finalized_at timestamptz,
    out progress jsonb,
    out result jsonb,
    out error text,
    out paused boolean
)
    returns setof record
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    return query select status.* from awa.job_statuses(array[job_status.job_id]) as status;
end
$$;
