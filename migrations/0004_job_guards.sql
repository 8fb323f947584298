-- Why: the rules that dispatch rests on, kept by the tables themselves. An inserting statement owns its transaction id
-- before it draws a seq; a row becomes available only by INSERT; nothing that the dispatch index covers changes in place.
-- Statement triggers fire only for the table that a statement names, hence on the parent and on each child; ENABLE ALWAYS
-- keeps them under session_replication_role = replica.
-- Previous binary: there is none.
-- Locks: ACCESS EXCLUSIVE on tables that are still empty.

-- Runs for each insert: the name is qualified because a setting of search_path would cost more than the rest of it.
create function awa.assign_xid() returns trigger
    language plpgsql
as $$
begin
    perform pg_catalog.pg_current_xact_id();
    return null;
end
$$;

create function awa.refuse_lane_change() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'awa.jobs_hot: id, seq, segment, queue, priority and kind do not change in place'
        using errcode = 'restrict_violation',
              hint = 'Move the row: delete it and insert it again in one statement, with a fresh seq.';
end
$$;

create function awa.refuse_state_change() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'awa.jobs_hot: job % cannot go from % to % in place', old.id, old.state, new.state
        using errcode = 'restrict_violation',
              hint = 'In place only available -> running -> completed; every other change of state moves the row.';
end
$$;

do $guards$
declare
    guarded text;
begin
    foreach guarded in array array['jobs_hot', 'jobs_hot_parked']
        || array(select format('jobs_hot_%s', segment) from generate_series(0, 7) as segment)
    loop
        execute format('create trigger assign_xid before insert on awa.%I
                            for each statement execute function awa.assign_xid()', guarded);
        execute format('alter table awa.%I enable always trigger assign_xid', guarded);
        execute format('create trigger refuse_lane_change
                            before update of id, seq, segment, queue, priority, kind on awa.%I
                            for each statement execute function awa.refuse_lane_change()', guarded);
        execute format('alter table awa.%I enable always trigger refuse_lane_change', guarded);
        continue when guarded = 'jobs_hot';
        execute format('create trigger refuse_state_change after update of state on awa.%I
                            for each row when (old.state <> new.state
                                and not (old.state = ''available'' and new.state = ''running'')
                                and not (old.state = ''running'' and new.state = ''completed''))
                            execute function awa.refuse_state_change()', guarded);
        execute format('alter table awa.%I enable always trigger refuse_state_change', guarded);
    end loop;
end
$guards$;
