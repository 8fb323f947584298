-- How the queues are doing: a JSON array of objects, by name.
--   p_limit        how many at most: those that awa.known_queues knows, and those with jobs that come due first
--   p_rows_max     rows of a lane that are looked at from its front, and as many from its end
--   p_budget       rows that are looked at in all; of lanes beyond that only the first row is
--   p_stale_after  after which silence a worker is taken for dead
-- Each has name, paused, workers (live ones that serve it), available and waiting_since (the oldest available), running, deferred,
-- overdue (of these, due and not promoted) and next_due_at. What ends in _is_all says whether the number is everything, or a bound.
-- Index: dispatch of each segment, scheduled_jobs_due, primary keys; active_claims is read through. Locks nothing.
create or replace function awa.queue_statuses(
    p_limit integer,
    p_rows_max integer,
    p_budget integer,
    p_stale_after interval
)
    returns jsonb
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    answer    jsonb := '[]';
    this      text;
    lane      record;
    budget    bigint := p_budget;
    available bigint;
    since     timestamptz;
    is_all    boolean;
    running   jsonb;
    deferred  jsonb;
begin
    select jsonb_build_object('is_all', coalesce(bool_and(attempts.is_all), true),
                              'of', coalesce(jsonb_object_agg(attempts.queue, attempts.running), '{}'))
      into running
      from (select survey.queue, sum(survey.running) as running, bool_and(survey.is_all) as is_all
              from awa.survey_running(p_rows_max) as survey
             group by survey.queue) as attempts;
    select jsonb_build_object('is_all', coalesce(bool_and(survey.is_all), true),
                              'of', coalesce(jsonb_object_agg(survey.queue, to_jsonb(survey)), '{}'))
      into deferred
      from awa.survey_deferred(p_rows_max) as survey;
    for this in
        select known.name
          from (select * from awa.known_queues(p_limit) union select jsonb_object_keys(deferred -> 'of')) as known (name)
         order by known.name collate "C"
         limit p_limit
    loop
        available := 0;
        since := null;
        is_all := true;
        for level in 1..4 loop
            lane := awa.survey_lane(this, level::smallint, null, null, greatest(least(p_rows_max, budget), 1)::integer);
            available := available + lane.available;
            since := least(since, lane.waiting_since);
            is_all := is_all and lane.is_all;
            budget := budget - lane.looked;
        end loop;
        answer := answer || (
            select jsonb_build_object(
                'name', this,
                'paused', exists (select from awa.queues as setting where setting.name = this and setting.paused),
                'workers', (select count(*)
                              from awa.workers as worker
                             where this = any (worker.queues)
                               and worker.last_seen_at > now() - p_stale_after),
                'available', available,
                'available_is_all', is_all,
                'waiting_since', case when since is not null then awa.calendar_time(least(since, now())) end,
                'running', coalesce((running -> 'of' ->> this)::bigint, 0),
                'running_is_all', (running -> 'is_all')::boolean,
                'deferred', coalesce((deferred -> 'of' -> this ->> 'deferred')::bigint, 0),
                'overdue', coalesce((deferred -> 'of' -> this ->> 'overdue')::bigint, 0),
                'deferred_is_all', (deferred -> 'is_all')::boolean,
                'next_due_at', awa.calendar_time((deferred -> 'of' -> this ->> 'next_due_at')::timestamptz)));
    end loop;
    return answer;
end
$$;
