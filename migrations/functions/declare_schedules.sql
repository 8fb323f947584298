-- Declare all periodic jobs that an application has in its code; called when one of its processes starts.
--   p_owner      the application
--   p_revision   of its code. An older one than was declared before changes nothing, so that two versions of it, side by side
--                in a deployment, do not undo each other's schedules; of equal ones the last to start counts.
--   p_schedules  an array of objects: name, expression, timezone, job, missed, catch_up_max, overlap, all but the names optional
--                as in awa.set_schedule
--   p_remove     whether schedules of this application that are not among them are deleted
-- Answers what became of each: created, changed, unchanged, owned (somebody else has that name), outdated, or deleted.
-- Raises 22023 for bad input, and nothing is changed. Locks the row of the application, then those of its schedules by name.
create or replace function awa.declare_schedules(p_owner text, p_revision bigint, p_schedules jsonb, p_remove boolean)
    returns table (name text, outcome text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    given record;
    wrong record;
begin
    perform awa.check_name('owner', p_owner);
    if p_schedules is null or jsonb_typeof(p_schedules) <> 'array' then
        perform awa.refuse('schedules', awa.json_kind(p_schedules), 'an array');
    elsif p_revision is null then
        perform awa.refuse('revision', null, 'an integer');
    end if;
    for given in
        select 'schedules[' || list.place - 1 || ']' as place, list.schedule, jsonb_typeof(list.schedule) = 'object' as is_object,
               count(*) over (partition by list.schedule ->> 'name' order by list.place) as times
          from jsonb_array_elements(p_schedules) with ordinality as list (schedule, place)
         order by list.place
    loop
        if not given.is_object then
            perform awa.refuse(given.place, awa.json_kind(given.schedule), 'an object');
        elsif given.times > 1 then
            perform awa.refuse(given.place || '.name', awa.excerpt((given.schedule -> 'name')::text), 'given once');
        end if;
        select field.key, given.schedule -> field.key as value, field.allowed
          into wrong
          from (values ('name', 'string', 'a text'), ('expression', 'string', 'a text'), ('timezone', 'string', 'a text'),
                       ('missed', 'string', 'a text'), ('catch_up_max', 'number', 'an integer'), ('overlap', 'string', 'a text'))
               as field (key, type, allowed)
         where jsonb_typeof(given.schedule -> field.key) not in (field.type, 'null')
            or field.type = 'number'
               and jsonb_typeof(given.schedule -> field.key) = 'number'
               and ((given.schedule ->> field.key)::numeric % 1 <> 0
                    or (given.schedule ->> field.key)::numeric not between -2147483648 and 2147483647)
         limit 1;
        if found then
            perform awa.refuse(given.place || '.' || wrong.key, awa.excerpt(wrong.value::text), wrong.allowed);
        end if;
    end loop;
    for given in
        select 'schedules[' || list.place - 1 || '].' as place, one.*
          from jsonb_array_elements(p_schedules) with ordinality as list (schedule, place)
         cross join lateral jsonb_to_record(list.schedule) as one (
                   name text, expression text, timezone text, job jsonb, missed text, catch_up_max integer, overlap text)
    loop
        perform awa.check_schedule(given.name, given.expression, coalesce(given.timezone, 'UTC'), given.job,
                                   coalesce(given.missed, 'coalesce'), given.catch_up_max,
                                   coalesce(given.overlap, 'allow'), given.place);
    end loop;
    insert into awa.cron_owners as held (owner, revision)
    values (p_owner, p_revision)
        on conflict (owner) do update
       set revision = excluded.revision,
           declared_at = now()
     where held.revision <= excluded.revision;
    if not found then
        return query select one.name, 'outdated'
                       from jsonb_to_recordset(p_schedules) as one (name text)
                      order by one.name collate "C";
        return;
    end if;
    for given in
        select one.*
          from jsonb_to_recordset(p_schedules) as one (
                   name text, expression text, timezone text, job jsonb, missed text, catch_up_max integer, overlap text)
         order by one.name collate "C"
    loop
        name := given.name;
        outcome := awa.write_schedule(p_owner, given.name, given.expression, coalesce(given.timezone, 'UTC'), given.job,
                                      coalesce(given.missed, 'coalesce'), given.catch_up_max,
                                      coalesce(given.overlap, 'allow'));
        return next;
    end loop;
    if p_remove then
        for name in
            select schedule.name
              from awa.cron_schedules as schedule
             where schedule.owner = p_owner
               and schedule.name not in (select one.name from jsonb_to_recordset(p_schedules) as one (name text))
             order by schedule.name
        loop
            perform awa.leave_waiting(declare_schedules.name);
            delete from awa.cron_schedules as schedule
             where schedule.name = declare_schedules.name
               and schedule.owner = p_owner;
            outcome := 'deleted';
            return next;
        end loop;
    end if;
end
$$;
