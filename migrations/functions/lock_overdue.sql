-- Lock those of these attempts that nobody seems to work on any more, and say why.
--   p_segments         where the rows are now
--   p_ids, p_leases    job ids and their run_leases, same order
--   p_dead             the worker that claimed them is gone
--   p_silent_since     an attempt without a sign of life since then is overdue
--   p_deadline_before  an attempt whose deadline was before this is overdue
-- The condition is judged on the row as locked: a beat, a completion or another rescue that came first wins. A row that
-- somebody has locked is passed by. is_ahead: its last sign of life is in the future, by a clock that was set back since then, so
-- nobody can say yet. takes_key: the row must take a unique key to become retryable or failed.
-- Index: the primary key of each segment. Locks the rows it answers.
do $install$
declare
    branches text;
begin
    select string_agg(replace($branch$
        when @ then
            return query
            select @::smallint, late.id, late.run_lease, late.unique_key,
                   late.unique_key is not null
                       and (late.unique_states & awa.state_bit('running')) = 0
                       and (late.unique_states & awa.state_bit(
                               case when late.attempt < late.max_attempts then 'retryable' else 'failed' end::awa.job_state)
                           ) <> 0,
                   case when late.deadline_at < p_deadline_before then 'deadline'
                        when p_dead then 'worker'
                        else 'heartbeat' end,
                   case when late.deadline_at < p_deadline_before
                        then format('rescued: worker %s overran the deadline %s (lease %s)',
                                    late.attempted_by, late.deadline_at, late.run_lease)
                        when p_dead
                        then format('rescued: worker %s is gone (lease %s)', late.attempted_by, late.run_lease)
                        else format('rescued: worker %s gave no sign of life since %s (lease %s)',
                                    late.attempted_by, greatest(late.heartbeat_at, late.attempted_at), late.run_lease)
                   end,
                   not p_dead and not coalesce(late.deadline_at < p_deadline_before, false)
                       and coalesce(greatest(late.heartbeat_at, late.attempted_at), '-infinity') >= p_silent_since
              from unnest(p_segments, p_ids, p_leases) as wanted (segment, id, run_lease)
             cross join lateral (
                   select hot.*
                     from awa.jobs_hot_@ as hot
                    where hot.id = wanted.id
                      and hot.run_lease = wanted.run_lease
                      and hot.state = 'running'
                      and (p_dead
                           or hot.deadline_at < p_deadline_before
                           or greatest(hot.heartbeat_at, hot.attempted_at) > now() + interval '1 second'
                           or coalesce(greatest(hot.heartbeat_at, hot.attempted_at), '-infinity') < p_silent_since)
                      for update skip locked
             ) as late
             where wanted.segment = here;$branch$, '@', segment::text), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.lock_overdue(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_dead boolean,
    p_silent_since timestamptz,
    p_deadline_before timestamptz
)
    returns table (
        segment smallint, id bigint, run_lease bigint, unique_key bytea, takes_key boolean, reason text, error text,
        is_ahead boolean
    )
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $body$
#variable_conflict use_column
declare
    here smallint;
begin
    for here in select distinct hint.segment from unnest(p_segments) as hint (segment) order by 1 loop
        case here
        @branches
        else null;
        end case;
    end loop;
end
$body$
$function$, '@branches', branches);
end
$install$;
