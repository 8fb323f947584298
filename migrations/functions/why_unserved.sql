-- Reasons of awa.why: no worker may, can or would take the job.
--   p_queue, p_kind  of the job
--   p_stale_after    after which silence a worker is taken for dead
-- Reads the list of workers through; the primary key of awa.queues. Locks nothing.
create or replace function awa.why_unserved(p_queue text, p_kind text, p_stale_after interval)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    fleet record;
begin
    if exists (select from awa.queues as setting where setting.name = p_queue and setting.paused) then
        reason := 'paused';
        explanation := format('queue %s is paused', p_queue);
        advice := 'awa.resume_queue lets it go on';
        detail := jsonb_build_object('queue', p_queue);
        return next;
    end if;
    select count(*) filter (where worker.is_alive) as alive,
           count(*) filter (where worker.is_alive and worker.serves) as serving,
           count(*) filter (where worker.is_alive and worker.serves and worker.knows) as able,
           count(*) filter (where worker.is_alive and worker.knows) as knowing,
           max(worker.last_seen_at) as last_seen_at
      into fleet
      from (select each.last_seen_at, each.last_seen_at > now() - p_stale_after as is_alive,
                   p_queue = any (each.queues) as serves, p_kind = any (each.kinds) as knows
              from awa.workers as each) as worker;
    if fleet.able > 0 then
        return;
    end if;
    detail := jsonb_build_object('queue', p_queue, 'kind', p_kind, 'alive', fleet.alive, 'serving', fleet.serving,
                                 'last_seen_at', awa.calendar_time(fleet.last_seen_at));
    if fleet.alive = 0 then
        reason := 'no_worker';
        explanation := format('no worker is alive%s', '; the last sign of one was at ' || awa.told_time(fleet.last_seen_at));
        advice := format('start a worker that serves queue %s and has a handler for %s', p_queue, p_kind);
    elsif fleet.serving = 0 then
        reason := 'no_worker_for_queue';
        explanation := format('none of the live workers (%s) serves queue %s', fleet.alive, p_queue);
        advice := 'start a worker that does, or move the job with awa.edit';
    else
        reason := 'no_worker_for_kind';
        explanation := format('none of the live workers of queue %2$s (%1$s) has a handler for %3$s%4$s', fleet.serving, p_queue, p_kind,
                              case when fleet.knowing > 0 then '; workers of other queues have' else '' end);
        advice := 'start a version of the service that has one, or move or cancel the job';
    end if;
    return next;
end
$$;
