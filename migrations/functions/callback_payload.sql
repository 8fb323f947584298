-- What the outside gave when it last let this job go on: JSON, or null where it gave nothing, or never did.
--   p_id  the job
-- Index: callbacks_job. Locks nothing.
create or replace function awa.callback_payload(p_id bigint) returns jsonb
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
begin
    return (select resumed.payload
              from awa.callbacks as resumed
             where resumed.job_id = p_id
               and resumed.answer = 'resume'
             order by resumed.run_lease desc, resumed.answered_at desc
             limit 1);
end
$$;
