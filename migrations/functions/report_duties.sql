-- What the duties of maintenance tell of themselves: written down for awa.status.

-- Write down what the duties of one process did. A duty that is not named stays as it is.
--   p_holder  the process; p_term: the term in which it leads, null for a tick
--   p_report  an array of objects, each duty at most once: name, left_out, passes, changed, failures; seconds: began_ago,
--             ended_ago, failed_ago, walked_ago, took, next_in; last_changed, is_caught_up, error, walk_segment, walk_after, finds
-- A leader counts all failures of its term; those of ticks, none of which lives to see the next, are added up here.
-- What is null and lasts over terms (when a pass ended or failed last, when a walk ended) stays as it was.
-- Index: primary key. Locks the rows, in the order of their names.
create or replace function awa.write_duties(p_holder uuid, p_term bigint, p_report jsonb) returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    insert into awa.duties as duty (
        name, holder, term, left_out, passes, changed, failures, began_at, ended_at, took, last_changed, is_caught_up, next_at,
        failed_at, error, walk_segment, walk_after, walked_at, finds, told_at)
    select left(told.name, 64), p_holder, p_term, coalesce(told.left_out, false), coalesce(told.passes, 0),
           coalesce(told.changed, 0), coalesce(told.failures, 0), now() - make_interval(secs => told.began_ago),
           now() - make_interval(secs => told.ended_ago), make_interval(secs => told.took), told.last_changed, told.is_caught_up,
           now() - make_interval(secs => told.ended_ago) + make_interval(secs => told.next_in),
           now() - make_interval(secs => told.failed_ago), left(told.error, 1000), told.walk_segment, told.walk_after,
           now() - make_interval(secs => told.walked_ago), told.finds, now()
      from jsonb_to_recordset(p_report) as told (
               name text, left_out boolean, passes bigint, changed bigint, failures bigint, began_ago double precision,
               ended_ago double precision, took double precision, last_changed bigint, is_caught_up boolean,
               next_in double precision, failed_ago double precision, error text, walk_segment smallint, walk_after bigint,
               walked_ago double precision, finds bigint)
     where told.name <> ''
     order by told.name collate "C"
     limit 100
        on conflict (name) do update
       set holder = excluded.holder,
           term = excluded.term,
           left_out = excluded.left_out,
           passes = excluded.passes,
           changed = excluded.changed,
           failures = excluded.failures + case when p_term is null and excluded.passes = 0 and excluded.failures > 0
                                               then duty.failures else 0 end,
           began_at = coalesce(excluded.began_at, duty.began_at),
           ended_at = coalesce(excluded.ended_at, duty.ended_at),
           took = coalesce(excluded.took, duty.took),
           last_changed = excluded.last_changed,
           is_caught_up = excluded.is_caught_up,
           next_at = excluded.next_at,
           failed_at = coalesce(excluded.failed_at, duty.failed_at),
           error = coalesce(excluded.error, duty.error),
           walk_segment = coalesce(excluded.walk_segment, duty.walk_segment),
           walk_after = coalesce(excluded.walk_after, duty.walk_after),
           walked_at = coalesce(excluded.walked_at, duty.walked_at),
           finds = coalesce(excluded.finds, duty.finds),
           told_at = now()
$$;

-- As awa.renew_leadership, and tell with it what the duties did: a leader whose term is over tells nothing.
--   p_duty, p_holder, p_term, p_seconds  as there
--   p_report                             as awa.write_duties takes it
-- One transaction with one id. It waits for no lock for long: who gets an error renews without a report, since the lease
-- matters more. Index: primary keys. Locks the row of the duty that is led, then as awa.write_duties.
create or replace function awa.renew_and_report(
    p_duty text,
    p_holder uuid,
    p_term bigint,
    p_seconds double precision,
    p_report jsonb
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '200ms'
as $$
begin
    if not awa.renew_leadership(p_duty, p_holder, p_term, p_seconds) then
        return false;
    end if;
    perform awa.write_duties(p_holder, p_term, p_report);
    return true;
end
$$;

-- Tell what the duties did in a tick, for which nobody is elected.
--   p_holder  the process
--   p_report  as awa.write_duties takes it
-- Index: primary key. Locks as awa.write_duties, waiting for none for long.
create or replace function awa.report_duties(p_holder uuid, p_report jsonb) returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '200ms'
as $$
    select awa.write_duties(p_holder, null, p_report)
$$;
