-- Complete one running attempt whoever holds the unique key that a completed job of its rule needs. The step that
-- awa.complete_alone and awa.complete_in share.
--   p_segment      where the row was last seen: a hint
--   p_id, p_lease  the job and its run_lease
--   p_result       what the handler returned, or null
-- Only where the rule covers completed but not running jobs can another job have the key: the work is done all the same, so
-- the row gives its key up, with an error entry that names the holder.
-- Answers whether it is applied; false where the lease is lost. May be repeated, as awa.complete says.
-- Index: the primary keys. Locks the row, then its unique claim; waits for each as long as the caller's lock_timeout says.
create or replace function awa.complete_row(p_segment smallint, p_id bigint, p_lease bigint, p_result jsonb)
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
declare
    conflict text;
    here     record;
begin
    begin
        update awa.jobs_hot as job
           set state = 'completed', finalized_at = now(), progress = null, result = p_result
         where job.segment = p_segment
           and job.id = p_id
           and job.run_lease = p_lease
           and job.state = 'running';
        if found then
            return true;
        end if;
        return not exists (select from awa.complete_elsewhere(array[p_id], array[p_lease], array[p_result]));
    exception when unique_violation then
        get stacked diagnostics conflict = message_text;
    end;
    select located.segment into here from awa.locate(array[p_id], array[p_lease]) as located;
    update awa.jobs_hot as job
       set state = 'completed', finalized_at = now(), progress = null, result = p_result,
           unique_key = null, unique_states = null,
           (errors, errors_dropped) = (
               select noted.errors, noted.dropped
                 from awa.append_error(job.errors, job.errors_dropped, jsonb_build_object(
                      'at', now(), 'attempt', job.attempt, 'lease', job.run_lease, 'worker', job.attempted_by,
                      'source', 'handler', 'error', 'it cannot have its unique key: ' || conflict)) as noted)
     where job.segment = here.segment
       and job.id = p_id
       and job.run_lease = p_lease
       and job.state = 'running';
    return found;
end
$$;
