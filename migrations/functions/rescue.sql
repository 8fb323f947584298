-- Rescue the attempts of the dead: those whose worker is gone, that gave no sign of life, or that overran their deadline.
--   p_after             look at the claimed batches behind this one; 0 for all
--   p_limit             stop after the batch in which this many were rescued; what was only looked at does not count
--   p_worker_silence    seconds after which a worker that was not seen is gone (one without a row is gone at once)
--   p_attempt_silence   seconds after which an attempt without a heartbeat is overdue
--   p_deadline_grace    seconds that the worker has to end an attempt itself after its deadline
--   p_budget            seconds after which the pass stops
-- Arrays, same order: the attempts handed back, why (worker, heartbeat, deadline), and their state now; null where a row
-- could not be handed back and stays. next_after is where a stopped pass goes on, null when every batch was looked at.
-- Workers and attempts seen in the future, before the clock was set back, count as seen now. Nothing else is remembered: what one pass leaves, the next one finds again. Two passes at once do no harm.
-- Index: active_claims is read through; job rows by primary key. Locks: as awa.lock_overdue and awa.hand_back_each, at
-- most 50 ms for each key or row; shares active_claims with claims, and holds off its emptying until the pass ends.
create or replace function awa.rescue(
    p_after bigint,
    p_limit integer,
    p_worker_silence double precision,
    p_attempt_silence double precision,
    p_deadline_grace double precision,
    p_budget double precision,
    out ids bigint[],
    out leases bigint[],
    out reasons text[],
    out states awa.job_state[],
    out next_after bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
    set lock_timeout = '50ms'
as $$
#variable_conflict use_column
declare
    silent_since    constant timestamptz := now() - make_interval(secs => p_attempt_silence);
    seen_since      constant timestamptz := now() - make_interval(secs => p_worker_silence);
    deadline_before constant timestamptz := now() - make_interval(secs => p_deadline_grace);
    candidate       record;
    running         record;
    late            record;
    batch           awa.active_claims;
    rescued         integer := 0;
    done            boolean := false;
begin
    -- A sign of life from the future, by a clock that was set back since then, counts as one of now.
    update awa.workers as worker
       set last_seen_at = now()
     where worker.id in (select ahead.id
                           from awa.workers as ahead
                          where ahead.last_seen_at > now() + interval '1 second'
                            for no key update skip locked);
    ids := '{}';
    leases := '{}';
    reasons := '{}';
    states := '{}';
    for candidate in
        -- Only where the batches are: their lists are read one at a time. Nothing moves here before this pass ends.
        select claim.id, claim.tableoid as part, claim.ctid as tuple, worker.id is null as dead
          from awa.active_claims as claim
          left join awa.workers as worker
            on worker.id = claim.worker
           and worker.last_seen_at >= seen_since
         where claim.id > p_after
           and (worker.id is null or claim.claimed_at < silent_since or claim.claimed_at > now() + interval '1 second'
                or claim.deadline_at < deadline_before)
         order by claim.id
    loop
        if rescued >= p_limit or (done and clock_timestamp() > now() + make_interval(secs => p_budget)) then
            next_after := candidate.id - 1;
            exit;
        end if;
        done := true;
        select claim.* into batch
          from awa.active_claims as claim
         where claim.tableoid = candidate.part
           and claim.ctid = candidate.tuple;
        select array_agg(still.segment) as segments, array_agg(still.id) as ids, array_agg(still.run_lease) as leases
          into running
          from awa.still_running(batch.segment, batch.job_ids, batch.run_leases) as still;
        continue when running.ids is null;
        with overdue as (
            select locked.*
              from awa.lock_overdue(running.segments, running.ids, running.leases, candidate.dead, silent_since,
                                    deadline_before) as locked
        ),
        seen_now as (
            update awa.jobs_hot as job
               set heartbeat_at = now(),
                   attempted_at = least(job.attempted_at, now())
              from overdue
             where overdue.is_ahead
               and job.segment = overdue.segment
               and job.id = overdue.id
               and job.run_lease = overdue.run_lease
               and job.state = 'running'
        )
        select array_agg(overdue.segment) as segments, array_agg(overdue.id) as ids,
               array_agg(overdue.run_lease) as leases, array_agg(overdue.unique_key) as keys,
               array_agg(overdue.takes_key) as alone, array_agg(overdue.reason) as reasons,
               array_agg(overdue.error) as errors
          into late
          from overdue
         where not overdue.is_ahead;
        continue when late.ids is null;
        select ids || array_agg(handed.id), states || array_agg(handed.state),
               leases || array_agg(late.leases[array_position(late.ids, handed.id)]),
               reasons || array_agg(late.reasons[array_position(late.ids, handed.id)])
          into ids, states, leases, reasons
          from awa.hand_back_each(late.segments, late.ids, late.leases, late.keys, late.alone, late.errors) as handed;
        rescued := cardinality(array_remove(states, null));
    end loop;
end
$$;
