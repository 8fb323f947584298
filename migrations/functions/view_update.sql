-- UPDATE of the view awa.jobs: only the columns that the statement changes are written, on the row as it is once it is locked.
--   queue, priority, run_at, args, max_attempts, timeout, tags, metadata  as awa.edit does; null takes a timeout, tags or
--            metadata away, and means the default elsewhere
--   state    alone, and only to cancelled (as awa.cancel) or available (as awa.retry or awa.run_now)
-- Of two racing writers one gets the row: the other finds that the state, the run_lease or a column that it changes is not
-- what it saw, and its statement touches no row, which RETURNING and the row count tell.
-- A unique key that another job holds ends in no row, or in AWA02 where the setting awa.on_conflict is error.
-- Fails with 22023 for values that a job cannot have and columns that nobody sets, with 55000 for a state that does not allow
-- the change, with 55P03 for a key that somebody has in hand.
-- Index: the primary keys. Locks the row as long as lock_timeout allows, then its unique claim.
do $install$
declare
    settable constant text[] := array['state', 'queue', 'priority', 'run_at', 'args', 'max_attempts', 'timeout', 'tags',
                                      'metadata'];
    others   text;
    guards   text;
    writes   text;
begin
    select string_agg(format('when new.%1$I is distinct from old.%1$I then %1$L', attname), ' ' order by attnum)
      into others
      from pg_attribute
     where attrelid = 'awa.jobs'::regclass
       and attnum > 0
       and not attisdropped
       and attname <> all (settable);
    select string_agg(format('and (new.%1$I is not distinct from old.%1$I or job.%1$I is not distinct from old.%1$I)', name), ' '),
           string_agg(format('if new.%1$I is distinct from old.%1$I then wanted.%1$I := new.%1$I; end if;', name), ' ')
      into guards, writes
      from unnest(settable) as name
     where name <> 'state';
    execute replace(replace(replace($function$
create or replace function awa.view_update() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $body$
declare
    protected text;
    job       awa.jobs_hot;
    wanted    awa.jobs_hot;
    changed   record;
begin
    protected := case @others end;
    if protected is not null then
        raise exception '% of job % cannot be set', protected, old.id
            using errcode = 'invalid_parameter_value',
                  hint = 'An UPDATE can set queue, priority, run_at, args, max_attempts, timeout, tags, metadata, and state alone.';
    end if;
    new.queue := coalesce(new.queue, 'default');
    new.priority := coalesce(new.priority, 2);
    new.run_at := coalesce(new.run_at, now());
    new.args := coalesce(new.args, '{}');
    new.max_attempts := coalesce(new.max_attempts, 25);
    new.tags := nullif(new.tags, '{}');
    if array_ndims(new.tags) = 1 and array_lower(new.tags, 1) <> 1 then
        new.tags := array(select unnest(new.tags));
    end if;
    if new.state is distinct from old.state then
        perform awa.check_wish(old.id, new.state, to_jsonb(new) - 'state' is distinct from to_jsonb(old) - 'state');
    end if;
    select locked.* into job from awa.lock_jobs(array[old.id]) as locked;
    if not (job.id is not null and job.state = old.state and job.run_lease = old.run_lease @guards) then
        return null;
    end if;
    if new.state is distinct from old.state then
        changed := awa.change_state(job, new.state);
    else
        wanted := job;
        @writes
        perform awa.check_edit(job, wanted);
        wanted.timeout := make_interval(secs => extract(epoch from wanted.timeout)::double precision);
        changed := awa.change_job(job, wanted);
    end if;
    if changed.outcome = 'busy' then
        raise exception 'the unique key of job % is locked', old.id using errcode = 'lock_not_available';
    elsif changed.outcome = 'duplicate' then
        perform awa.refuse_duplicate(changed.holder);
        return null;
    end if;
    select shown.* into new from awa.jobs as shown where shown.id = old.id;
    return new;
end
$body$
$function$, '@others', others), '@guards', guards), '@writes', writes);
end
$install$;

create or replace trigger jobs_update instead of update on awa.jobs
    for each row execute function awa.view_update();

comment on trigger jobs_update on awa.jobs is 'Changes a job as the caller saw it, or not at all.';
