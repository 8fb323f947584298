-- Reasons of awa.why: the job is due later, or should have been promoted.
--   the parameters are columns of the job, p_error the newest of its errors
-- Index: primary keys; scheduled_jobs_due, of which at most 1001 entries. Locks nothing.
create or replace function awa.why_deferred(
    p_id bigint,
    p_state awa.job_state,
    p_run_at timestamptz,
    p_attempt smallint,
    p_max_attempts smallint,
    p_error text
)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
#variable_conflict use_column
declare
    ahead_max constant integer := 1000;
    due       constant timestamptz := awa.calendar_time(p_run_at);
    ahead     bigint;
begin
    if p_run_at > now() then
        reason := case p_state when 'retryable' then 'retrying' else 'due_later' end;
        explanation := case p_state
            when 'retryable' then format('attempt %s of %s failed, and the next one is due at %s%s', p_attempt, p_max_attempts,
                                         awa.told_time(due), ': ' || awa.excerpt(p_error))
            else format('it is due at %s', awa.told_time(due))
        end;
        advice := 'awa.run_now does not wait for that';
        detail := jsonb_build_object('due_at', due, 'attempt', p_attempt, 'max_attempts', p_max_attempts, 'error', p_error);
        return next;
        return;
    end if;
    select count(*) into ahead
      from (select from awa.scheduled_jobs as earlier
             where (earlier.run_at, earlier.id) < (p_run_at, p_id)
             order by earlier.run_at, earlier.id
             limit ahead_max) as counted;
    return query select * from awa.why_unled();
    reason := 'not_promoted';
    explanation := format('it has been due since %s and is not promoted yet; %s jobs are due before it%s', awa.told_time(due),
                          awa.told_number(ahead, ahead < ahead_max), awa.duty_trouble('promotion'));
    advice := 'the leader, or the next tick, promotes what is due, the oldest first; awa.run_now does not wait for that';
    detail := jsonb_build_object('due_at', due, 'ahead', ahead, 'ahead_is_all', ahead < ahead_max);
    return next;
end
$$;
