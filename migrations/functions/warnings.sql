-- What somebody should look at now, the gravest first; empty where all is well.
--   p_status  the other fields of awa.status
-- A JSON array of objects: code, explanation, advice. The codes, in their order:
--   no_leader        nobody has led for a minute, and no tick has done a duty for an hour
--   no_worker        jobs have waited for a minute, and no worker is alive
--   duty_failing     a duty of maintenance has failed three times in a row
--   duty_late        a duty is late (awa.duty_statuses); not where nobody leads, which says it all
--   ring_stuck       for ten minutes the oldest segment could not be emptied
--   size_expected    ended jobs will take more than the setting expected_bytes_max
--   holder           what awa.holders tells holds something up for ten minutes, or for a million transactions, or is a slot that
--                    nobody reads
--   queue_unserved   jobs have waited for a minute in a queue that no live worker serves
--   schedule_fault   a schedule enqueues nothing, since it cannot be read
--   audit_found      the audit has found what must not be there
--   worker_silent    a worker is on the list and gives no sign of life
-- Lists name ten at most. Pure: reads and locks nothing.
create or replace function awa.warnings(p_status jsonb) returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    patience  constant interval := '10 minutes';
    told_max  constant integer := 10;
    at        constant timestamptz := p_status ->> 'at';
    last_led  constant timestamptz := p_status ->> 'last_led_at';
    ring      constant jsonb := p_status -> 'ring';
    size      constant jsonb := p_status -> 'size';
    is_led    constant boolean := p_status -> 'leader' <> 'null';
    has_ticks boolean;
    alive     boolean;
    silent    text;
    faults    text;
    found     boolean;
    unserved  record;
begin
    -- As awa.has_ticks.
    select coalesce(bool_or(duty.told -> 'term' = 'null'
                            and (duty.told ->> 'ended_at')::timestamptz > at - interval '1 hour'
                            and (duty.told ->> 'ended_at')::timestamptz < at + interval '1 minute'), false),
           coalesce(bool_or((duty.told -> 'walk' ->> 'finds')::bigint > 0), false)
      into has_ticks, found
      from jsonb_array_elements(p_status -> 'duties') as duty (told);
    select coalesce(bool_or(one.is_alive), false),
           string_agg(format('%s on %s since %s', one.told ->> 'name', one.told ->> 'host',
                             awa.told_time((one.told ->> 'last_seen_at')::timestamptz)), ', ' order by one.place)
               filter (where not one.is_alive and one.place <= told_max)
      into alive, silent
      from (select worker.told, (worker.told -> 'is_alive')::boolean as is_alive,
                   row_number() over (partition by worker.told -> 'is_alive' order by worker.place) as place
              from jsonb_array_elements(p_status -> 'workers') with ordinality as worker (told, place)) as one;
    select string_agg(format('%s (%s)', one.told ->> 'name', one.told ->> 'fault'), ', ' order by one.place)
      into faults
      from (select schedule.told, schedule.place
              from jsonb_array_elements(p_status -> 'schedules') with ordinality as schedule (told, place)
             where schedule.told -> 'fault' <> 'null'
             order by schedule.place
             limit told_max) as one;
    select count(*) as number, string_agg(one.name, ', ' order by one.place) filter (where one.place <= told_max) as names
      into unserved
      from (select queue.told ->> 'name' as name,
                   row_number() over (order by (queue.told ->> 'waiting_since')::timestamptz, queue.told ->> 'name') as place
              from jsonb_array_elements(p_status -> 'queues') as queue (told)
             where (queue.told ->> 'available')::bigint > 0
               and (queue.told ->> 'workers')::bigint = 0
               and (queue.told ->> 'waiting_since')::timestamptz < at - interval '1 minute'
               and not (queue.told -> 'paused')::boolean) as one;
    return awa.warn(not is_led and not has_ticks and coalesce(last_led not between at - interval '1 minute' and at, true), 'no_leader',
                    format('no process leads%s: nothing is promoted, rescued, timed out or deleted, and no schedule comes round',
                           ' since ' || awa.told_time(case when last_led <= at then last_led end)),
                    'start a process that takes part in maintenance: a worker, or awa maintain')
        || awa.warn(unserved.number > 0 and not alive, 'no_worker',
                    format('jobs wait, and no worker is alive: %s', unserved.names), 'start workers')
        || awa.warn_of_duties(p_status -> 'duties', is_led)
        || awa.warn((ring ->> 'stuck_for')::double precision > extract(epoch from patience), 'ring_stuck',
                    format('ended jobs have not been deleted for %s: %s',
                           make_interval(secs => floor((ring ->> 'stuck_for')::double precision)), ring ->> 'reason'),
                    'end what the reason names; the current segment grows meanwhile')
        || awa.warn((size -> 'is_exceeded')::boolean, 'size_expected',
                    format('ended jobs take %s, and will take %s at the present rate: more than expected_bytes_max, %s',
                           pg_size_pretty((size ->> 'ring_bytes')::bigint + (size ->> 'parked_bytes')::bigint),
                           pg_size_pretty((size ->> 'expected')::bigint), pg_size_pretty((size ->> 'max')::bigint)),
                    'shorten the retention, or set expected_bytes_max to what the disk has room for: awa.configure_ring')
        || awa.warn_of_holders(p_status -> 'holders', at)
        || awa.warn(unserved.number > 0 and alive, 'queue_unserved',
                    format('jobs wait in queues that no live worker serves: %s%s', unserved.names,
                           case when unserved.number > told_max then format(' and %s more', unserved.number - told_max) end),
                    'start workers for them, or pause them if that is meant')
        || awa.warn(faults is not null, 'schedule_fault', format('schedules cannot be read and enqueue nothing: %s', faults),
                    'mend the expression or the zone: with awa.set_schedule, or in the code that declares them')
        || awa.warn(found, 'audit_found',
                    'the audit has found jobs that dispatch or rescue had lost: a bug in Awa, or a hand in its tables',
                    'they have been put right where that is possible; report it, with the leader''s log')
        || awa.warn(silent is not null, 'worker_silent', format('workers give no sign of life: %s', silent),
                    'see whether these processes have died or hang; their jobs are rescued, and they are forgotten after an hour');
end
$$;
