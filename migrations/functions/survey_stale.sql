-- How many attempts run as far as is known, and should have been rescued: their worker is gone, they gave no sign of life, or
-- their deadline is over for more than a minute. One row.
--   p_limit        attempts looked at: first those whose worker is gone, then those of the oldest batches
--   p_stale_after  the silence that means death
-- since is when the first of them should have been rescued; is_all is false where p_limit was reached: then at least so many.
-- Index: active_claims is read through; job rows by the primary key of each segment. Locks nothing.
create or replace function awa.survey_stale(
    p_limit integer,
    p_stale_after interval,
    out stale bigint,
    out is_all boolean,
    out since timestamptz
)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $$
declare
    -- A worker has this long to end an attempt itself; its own setting is not known here.
    deadline_grace  constant interval := '1 minute';
    silent_since    constant timestamptz := now() - p_stale_after;
    deadline_before constant timestamptz := now() - deadline_grace;
    listed          record;
begin
    select array_agg(suspect.id) as ids, array_agg(suspect.run_lease) as leases, array_agg(suspect.dead) as dead,
           count(*) < p_limit as is_all
      into listed
      from (select attempt.id, attempt.run_lease, batch.dead
              from (select claim.job_ids, claim.run_leases, worker.id is null as dead
                      from awa.active_claims as claim
                      left join awa.workers as worker
                        on worker.id = claim.worker
                       and worker.last_seen_at >= silent_since
                     where worker.id is null
                        or claim.claimed_at < silent_since
                        or claim.deadline_at < deadline_before
                     order by worker.id is not null, claim.id
                     limit p_limit) as batch
             cross join lateral unnest(batch.job_ids, batch.run_leases) as attempt (id, run_lease)
             limit p_limit) as suspect;
    select count(*), min(least(late.since, now()))
      into stale, since
      from unnest(listed.ids, listed.leases, listed.dead) as wanted (id, run_lease, dead)
     cross join lateral (
           select case when hot.deadline_at < deadline_before then hot.deadline_at
                       else coalesce(greatest(hot.heartbeat_at, hot.attempted_at) + p_stale_after, '-infinity') end as since
             from awa.jobs_hot as hot
            where hot.segment >= 0
              and hot.id = wanted.id
              and hot.run_lease = wanted.run_lease
              and hot.state = 'running'
              and (wanted.dead
                   or hot.deadline_at < deadline_before
                   or coalesce(greatest(hot.heartbeat_at, hot.attempted_at), '-infinity') < silent_since)
           offset 0
     ) as late;
    is_all := listed.is_all;
end
$$;
