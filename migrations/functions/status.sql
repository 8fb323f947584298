-- How is the fleet doing? One JSON object, for people, dashboards and programs.
--   stale_after  silence after which a worker is taken for dead; give what the workers have
-- Its fields:
--   at         when this was, by the database's clock
--   leader     who does the duties: worker, name, host, term, since, until; null where nobody does
--   last_led_at  when the last term ended or will end; null where there never was one
--   duties     each of them: what it did last, and what waits for it: see awa.duty_statuses
--   workers    those on the list, at most 1000, the oldest first, with is_alive
--   ring       as awa.ring_status has it, spans in seconds
--   queues     as awa.queue_statuses has them, at most 1000
--   holders    what is open and holds something up: see awa.holders
--   schedules  those at fault or paused, at most 1000: name, fault, paused_at, next_at
--   size       what ended jobs take, and will take at the present rate: see awa.expected_size
--   warnings   what somebody should look at now, the gravest first: see awa.warnings
--   callbacks  overdue: jobs that wait for an answer that should have timed out; overdue_since
-- What ends in _is_all says whether that is everything, or a bound.
-- Reads a bounded number of rows and what is in shared memory. Has no limit of time of its own: the caller's is one. Locks nothing.
create or replace function awa.status(stale_after interval default '90 seconds') returns jsonb
    language plpgsql stable
    security definer
    set search_path = pg_catalog, pg_temp
    set timezone = 'UTC'
    set datestyle = 'ISO'
    set jit = off
as $$
declare
    listed_max constant integer := 1000;
    rows_max   constant integer := 10000;
    budget     constant integer := 100000;
    span       constant interval := least(greatest(coalesce(status.stale_after, '90 seconds'), '0'), '1000 years');
    queues     constant jsonb := awa.queue_statuses(listed_max, rows_max, budget, span);
    ring       record;
    answer     jsonb;
begin
    select state.* into ring from awa.ring_status() as state;
    answer := jsonb_build_object(
        'at', now(),
        'leader', (
            select jsonb_build_object('worker', held.holder, 'name', worker.name, 'host', worker.host, 'term', held.term,
                                      'since', held.elected_at, 'until', held.expires_at)
              from awa.current_leader() as held
              left join awa.workers as worker on worker.id = held.holder),
        'last_led_at', (select held.expires_at from awa.leader as held where held.duty = 'maintenance'),
        'duties', awa.duty_statuses(rows_max, span),
        'workers', coalesce((
            select jsonb_agg(
                       jsonb_build_object(
                           'id', worker.id, 'name', worker.name, 'host', worker.host, 'pid', worker.pid,
                           'version', worker.version, 'queues', worker.queues, 'kinds', worker.kinds,
                           'started_at', awa.calendar_time(worker.started_at),
                           'last_seen_at', awa.calendar_time(worker.last_seen_at),
                           'is_alive', worker.last_seen_at > now() - span)
                       order by worker.started_at, worker.id)
              from (select * from awa.workers as each order by each.started_at, each.id limit listed_max) as worker), '[]'),
        'workers_is_all', (select count(*) from awa.workers) <= listed_max,
        'ring', jsonb_build_object(
            'oldest', ring.oldest, 'current', ring.current, 'bytes', ring.bytes,
            'ages', array(select extract(epoch from age)::double precision from unnest(ring.ages) as age),
            'parked_bytes', ring.parked_bytes, 'claims_bytes', ring.claims_bytes,
            'rotate_in', extract(epoch from ring.rotate_in)::double precision,
            'recycle_in', extract(epoch from ring.recycle_in)::double precision,
            'reason', ring.reason,
            'stuck_for', extract(epoch from ring.stuck_for)::double precision,
            'settings', (select jsonb_object_agg(setting.key, case
                                    when setting.key like '%_bytes_max' or setting.value = 'null' then setting.value
                                    else to_jsonb(extract(epoch from (setting.value #>> '{}')::interval)::double precision) end)
                           from jsonb_each(ring.settings) as setting)),
        'queues', queues,
        'queues_is_all', jsonb_array_length(queues) < listed_max,
        'size', awa.expected_size(rows_max),
        'holders', awa.holders('1 minute', listed_max),
        'schedules', coalesce((
            select jsonb_agg(jsonb_build_object('name', schedule.name, 'fault', schedule.fault,
                                                'paused_at', schedule.paused_at,
                                                'next_at', awa.calendar_time(schedule.next_at)) order by schedule.name)
              from (select * from awa.cron_schedules as each
                     where each.fault is not null or each.paused_at is not null
                     order by each.name
                     limit listed_max) as schedule), '[]'),
        'callbacks', (
            select jsonb_build_object('overdue', count(*), 'overdue_is_all', count(*) < rows_max,
                                      'overdue_since', awa.calendar_time(min(late.due_at)))
              from (select waited.due_at
                      from awa.callbacks as waited
                     where waited.parked
                       and waited.answered_at is null
                       and waited.due_at <= now()
                     order by waited.due_at, waited.id
                     limit rows_max) as late));
    return answer || jsonb_build_object('warnings', awa.warnings(answer));
end
$$;
