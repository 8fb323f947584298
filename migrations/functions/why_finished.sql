-- A reason of awa.why: the job has ended.
--   the parameters are columns of the job, p_error the newest of its errors
-- Reads and locks nothing.
create or replace function awa.why_finished(p_state awa.job_state, p_finalized_at timestamptz, p_attempt smallint, p_error text)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language sql stable
    set search_path = pg_catalog, pg_temp
as $$
    select 'finished',
           case p_state
               when 'completed' then format('it completed at %s', awa.told_time(p_finalized_at))
               when 'failed' then format('it failed for good at %s, after %s attempts%s', awa.told_time(p_finalized_at),
                                         p_attempt, ': ' || awa.excerpt(p_error))
               else format('it was cancelled at %s%s', awa.told_time(p_finalized_at), ': ' || awa.excerpt(p_error))
           end,
           case p_state
               when 'completed' then 'nothing is to be done'
               else 'awa.retry gives it another life'
           end,
           jsonb_build_object('state', p_state, 'at', awa.calendar_time(p_finalized_at), 'error', p_error)
$$;
