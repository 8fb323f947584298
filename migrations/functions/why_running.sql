-- Reasons of awa.why: the job runs, or seems to.
--   the parameters but the last are columns of the job; p_stale_after: after which silence an attempt is taken for dead
-- A worker that has no row is dead at once; one whose deadline is over is rescued soon after, whatever signs of life it gives.
-- Index: primary keys. Locks nothing.
create or replace function awa.why_running(
    p_worker uuid,
    p_attempted_at timestamptz,
    p_heartbeat_at timestamptz,
    p_deadline_at timestamptz,
    p_attempt smallint,
    p_stale_after interval
)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    known     record;
    seen_at   constant timestamptz := awa.calendar_time(coalesce(greatest(p_heartbeat_at, p_attempted_at), '-infinity'));
    rescue_at timestamptz;
    who       text;
begin
    select worker.id, worker.name, worker.host, worker.pid, worker.last_seen_at into known
      from awa.workers as worker
     where worker.id = p_worker;
    rescue_at := case
        when known.id is null then now()
        else awa.calendar_time(least(seen_at + p_stale_after, known.last_seen_at + p_stale_after, p_deadline_at))
    end;
    who := case
        when known.id is null then format('worker %s, which is gone', coalesce(p_worker::text, 'unknown'))
        else format('worker %s on %s (pid %s)', known.name, known.host, known.pid)
    end;
    detail := jsonb_build_object(
        'worker', p_worker, 'name', known.name, 'host', known.host, 'pid', known.pid,
        'since', awa.calendar_time(p_attempted_at), 'last_sign', seen_at, 'deadline_at', awa.calendar_time(p_deadline_at),
        'rescue_at', rescue_at, 'attempt', p_attempt);
    if rescue_at > now() then
        reason := 'runs';
        explanation := format('it runs: attempt %s of %s, since %s, last sign of life at %s', p_attempt, who,
                              awa.told_time(p_attempted_at), awa.told_time(seen_at));
        advice := format('without another sign of life, or at its deadline, it is rescued from %s on',
                         awa.told_time(rescue_at));
        return next;
        return;
    end if;
    reason := 'stale';
    explanation := format('its attempt %s seems dead: %s, last sign of life at %s%s%s', p_attempt, who, awa.told_time(seen_at),
                          ', deadline ' || awa.told_time(p_deadline_at), awa.duty_trouble('rescue'));
    advice := format('the leader rescues it at its next pass, or the next tick does; it could from %s on', awa.told_time(rescue_at));
    return query select * from awa.why_unled();
    return next;
end
$$;
