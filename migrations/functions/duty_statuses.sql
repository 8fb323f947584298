-- How the duties of maintenance are doing: a JSON array of objects, the eight in their order, then others that told of themselves.
--   p_limit        as in awa.backlogs
--   p_stale_after  the same
-- Each has name; what awa.duties has of it (times, spans in seconds; null where it never ran), with walk for the audit; is_led:
-- whether the process that leads told this in its term; backlog as awa.backlogs has it, null where there can be none; and is_late.
-- Late is a duty whose next pass was due more than two minutes ago, or that has told nothing, where whoever leads was elected so long
-- ago, unless the leader leaves it out; and one whose backlog has waited for longer than two minutes: an hour for ring, claims and
-- retention.
-- Index: as awa.backlogs; awa.duties is read through. Locks nothing.
create or replace function awa.duty_statuses(p_limit integer, p_stale_after interval) returns jsonb
    language sql stable
    set search_path = pg_catalog, pg_temp
    set jit = off
as $$
    select jsonb_agg(
               jsonb_build_object(
                   'name', coalesce(known.name, told.name),
                   'is_led', coalesce(told.holder = led.holder and told.term = led.term, false),
                   'is_left_out', coalesce(told.left_out, false),
                   'holder', told.holder, 'term', told.term, 'passes', coalesce(told.passes, 0),
                   'changed', coalesce(told.changed, 0), 'failures', coalesce(told.failures, 0),
                   'began_at', told.began_at, 'ended_at', told.ended_at,
                   'took', extract(epoch from told.took)::double precision,
                   'last_changed', told.last_changed, 'is_caught_up', told.is_caught_up, 'next_at', told.next_at,
                   'failed_at', told.failed_at, 'error', told.error,
                   'walk', case when told.walk_segment is not null then jsonb_build_object(
                               'segment', told.walk_segment, 'after', told.walk_after, 'ended_at', told.walked_at,
                               'finds', coalesce(told.finds, 0)) end,
                   'backlog', case when backlog.name is not null then jsonb_build_object(
                                  'waiting', backlog.waiting, 'is_all', backlog.is_all,
                                  'since', awa.calendar_time(backlog.since)) end,
                   'is_late', coalesce(
                       case when told.left_out then false
                            when told.name is null then led.elected_at < now() - interval '2 minutes'
                            -- Whoever has just been elected is not to blame for the time when nobody led.
                            else told.next_at < now() - interval '2 minutes'
                                 and coalesce(led.elected_at < now() - interval '2 minutes', true) end, false)
                       or coalesce(backlog.since < now() - backlog.allowed, false))
               order by known.place, told.name)
      from (values ('promotion', 1), ('schedules', 2), ('rescue', 3), ('callbacks', 4), ('ring', 5), ('claims', 6),
                   ('retention', 7), ('audit', 8)) as known (name, place)
      full join (select duty.* from awa.duties as duty order by duty.name limit 100) as told on told.name = known.name
      left join awa.backlogs(p_limit, p_stale_after) as backlog on backlog.name = known.name
      left join awa.current_leader() as led on true
$$;
