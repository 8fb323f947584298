-- A reason of awa.why for a job that is available: others go first, or it should be taken any moment. No row where nobody would
-- take it at all.
--   p_queue, p_kind, p_priority, p_seq  columns of the job
--   p_stale_after                       after which silence a worker is taken for dead
-- Counts jobs that live workers of the queue would run, of more urgent priorities and earlier in the lane; and what runs. How many
-- slots a worker has is not known to the database.
-- Index: dispatch of each segment, primary keys; at most 10,000 entries of a lane, and as many from its end. Locks nothing.
create or replace function awa.why_behind(
    p_queue text,
    p_kind text,
    p_priority smallint,
    p_seq bigint,
    p_stale_after interval
)
    returns table (reason text, explanation text, advice text, detail jsonb)
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    rows_max    constant integer := 10000;
    running_max constant integer := 2000;
    able        bigint;
    kinds       text[];
    lane        record;
    ahead       bigint := 0;
    is_all      boolean := true;
    busy        record;
begin
    select count(*) into able
      from awa.workers as worker
     where worker.last_seen_at > now() - p_stale_after
       and p_queue = any (worker.queues)
       and p_kind = any (worker.kinds);
    if able = 0 then
        return;
    end if;
    kinds := array(select distinct known.kind
                     from awa.workers as worker
                    cross join lateral unnest(worker.kinds) as known (kind)
                    where worker.last_seen_at > now() - p_stale_after
                      and p_queue = any (worker.queues));
    for level in 1..p_priority loop
        lane := awa.survey_lane(p_queue, level::smallint, case when level = p_priority then p_seq end, kinds, rows_max);
        ahead := ahead + lane.available;
        is_all := is_all and lane.is_all;
        exit when ahead >= rows_max;
    end loop;
    select coalesce(sum(attempts.running), 0)::bigint as running, coalesce(bool_and(attempts.is_all), true) as is_all into busy
      from awa.survey_running(running_max) as attempts
     where attempts.queue = p_queue;
    is_all := is_all and ahead < rows_max;
    detail := jsonb_build_object('ahead', ahead, 'ahead_is_all', is_all, 'running', busy.running,
                                 'running_is_all', busy.is_all, 'workers', able);
    reason := case when ahead > 0 then 'behind' else 'next' end;
    explanation := format('in queue %2$s %1$s go first and %3$s run; live workers that would take it: %4$s',
                          awa.told_number(ahead, is_all), p_queue, awa.told_number(busy.running, busy.is_all), able);
    advice := case
        when ahead > 0 then 'wait, start more workers, give them more slots, or give the job a more urgent priority with awa.edit'
        else 'it should start any moment; should it not, all slots of these workers are taken, or its kind has reached its limit'
    end;
    return next;
end
$$;
