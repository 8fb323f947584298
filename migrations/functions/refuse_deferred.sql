-- Give a deferred row that cannot be promoted a definite end, with an error entry that says why.
--   p_tuple   where the row is; the caller holds its lock
--   p_state   failed, for a retry without attempts left; cancelled, for everything else
--   p_reason  why
-- A row that needs for its last state a key that another job holds gives its key up: the error entry says so. Answers
-- false where even that fails, and leaves the row as it was.
-- Index: none, by tuple id. Takes or releases the row's unique claim.
do $install$
begin
    execute replace($function$
create or replace function awa.refuse_deferred(p_tuple tid, p_state awa.job_state, p_reason text) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $body$
begin
    for gives_up_key in 0..1 loop
        begin
            with gone as (
                delete from awa.scheduled_jobs as job
                 where job.ctid = p_tuple
                returning @columns, unique_key, unique_states, errors, errors_dropped
            )
            insert into awa.jobs_hot_parked (segment, state, finalized_at, unique_key, unique_states, errors,
                                             errors_dropped, @columns)
            select -1, p_state, now(),
                   case when gives_up_key = 0 then gone.unique_key end,
                   case when gives_up_key = 0 then gone.unique_states end,
                   noted.errors, noted.dropped, @columns
              from gone
             cross join lateral awa.append_error(gone.errors, gone.errors_dropped, jsonb_build_object(
                   'at', now(), 'attempt', gone.attempt, 'lease', gone.run_lease, 'worker', null, 'source', 'rescue',
                   'error', case when gives_up_key = 0 then p_reason
                                 else p_reason || '; the job gave up its unique key' end)) as noted;
            return true;
        exception
            when unique_violation then
                null;
            when others then
                return false;
        end;
    end loop;
    return false;
end
$body$
$function$, '@columns',
        awa.job_columns('state', 'finalized_at', 'unique_key', 'unique_states', 'errors', 'errors_dropped'));
end
$install$;
