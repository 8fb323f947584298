-- What waits for the duties of maintenance: a row for each that can have a backlog.
--   p_limit        rows that are looked at for each, or for each state
--   p_stale_after  the silence after which an attempt is to be rescued
-- name is the duty; waiting how many jobs, schedules, callbacks, segments or batches wait for it; is_all whether that is all, or a
-- bound; since when the first of them has been waiting for it; allowed is how long that may be before the duty is late.
-- Index: scheduled_jobs_due, callbacks_due, and as the surveys say; schedules, active_claims and awa.ring are read through.
-- Locks nothing.
create or replace function awa.backlogs(p_limit integer, p_stale_after interval)
    returns table (name text, waiting bigint, is_all boolean, since timestamptz, allowed interval)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
#variable_conflict use_column
declare
    prompt constant interval := '2 minutes';
    -- These wait for others: for readers of a segment, for claims, for a great number of rows before them.
    patient constant interval := '1 hour';
begin
    return query
    select 'promotion', count(*), count(*) < p_limit, min(due.run_at), prompt
      from (select job.run_at from awa.scheduled_jobs as job where job.run_at <= now() order by job.run_at, job.id limit p_limit)
           as due;
    return query
    select 'schedules', count(*), count(*) < p_limit, min(due.next_at), prompt
      from (select schedule.next_at
              from awa.cron_schedules as schedule
             where schedule.paused_at is null
               and schedule.fault is null
               and schedule.planned
               and schedule.next_at <= now()
             limit p_limit) as due;
    return query
    select 'rescue', survey.stale, survey.is_all, survey.since, prompt from awa.survey_stale(p_limit, p_stale_after) as survey;
    return query
    select 'callbacks', count(*), count(*) < p_limit, min(late.due_at), prompt
      from (select waited.due_at
              from awa.callbacks as waited
             where waited.parked
               and waited.answered_at is null
               and waited.due_at <= now()
             order by waited.due_at, waited.id
             limit p_limit) as late;
    return query
    select 'ring', count(*), true, min(aged.since), patient
      from awa.ring as ring
     cross join lateral generate_series(ring.oldest, ring.current - 1) as closed (generation)
     cross join lateral (
           -- As awa.look_at_ring: a segment has come of age a little after its last row.
           select ring.closed_at[closed.generation % 8 + 1] + least(ring.completed_retention, '1000 years') * 25 / 24 as since
     ) as aged
     where aged.since <= now();
    return query
    select 'claims', count(*), count(*) < p_limit, case when count(*) > 0 then min(left_over.since) end, patient
      from (select ring.claims_switched_at as since
              from awa.ring as ring
             cross join lateral (select from awa.active_claims as claim where claim.part = 1 - ring.claims_part offset 0) as claim
             limit p_limit) as left_over;
    return query
    select 'retention', survey.expired, survey.is_all, survey.since, patient from awa.survey_expired(p_limit) as survey;
end
$$;
