-- INSERT into the view awa.jobs, also by COPY: the job is checked, routed by its due time and enqueued as awa.enqueue does it.
--   kind, queue, priority, run_at, max_attempts, timeout, args, metadata, tags, trace_context   null means the default
--   state    available or scheduled, or left out: whichever is given, run_at decides
--   unique_key, unique_states   both or neither: what awa.unique_key answers, and the states in which the key is held, as bits
-- Everything else is refused: ids, attempts and times are drawn here.
-- A unique key that another job holds: no row (INSERT 0 0); where the setting awa.on_conflict is replace, that job with the
-- args and due time of this one; where it is error, AWA02.
-- Index and locks: as awa.enqueue_one.
do $install$
declare
    settable constant text[] := array['kind', 'queue', 'state', 'priority', 'run_at', 'max_attempts', 'timeout', 'args',
                                      'metadata', 'tags', 'trace_context', 'unique_key', 'unique_states'];
    others   text;
begin
    select string_agg(format('when new.%1$I is not null then %1$L', attname), ' ' order by attnum)
      into others
      from pg_attribute
     where attrelid = 'awa.jobs'::regclass
       and attnum > 0
       and not attisdropped
       and attname <> all (settable);
    execute replace($function$
create or replace function awa.view_insert() returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $body$
declare
    protected text := case @others end;
    job_id    bigint;
begin
    if protected is not null then
        raise exception '% of a new job cannot be set', protected
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out. See the documentation of awa.jobs for the columns that can be given.';
    elsif new.state not in ('available', 'scheduled') then
        raise exception 'state of a new job cannot be %', new.state
            using errcode = 'invalid_parameter_value',
                  hint = 'Leave it out, or give available or scheduled; run_at decides which of the two it is.';
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
    perform awa.check_job(new.kind, new.args, new.queue, new.priority, new.run_at, null, new.max_attempts,
                          extract(epoch from new.timeout), new.tags, new.metadata, new.trace_context);
    -- Months and years have a length from here on, so that it can be added to any time.
    new.timeout := make_interval(secs => extract(epoch from new.timeout)::double precision);
    job_id := awa.insert_job(new);
    if job_id is null then
        return null;
    end if;
    select shown.* into new from awa.jobs as shown where shown.id = job_id;
    return new;
end
$body$
$function$, '@others', others);
end
$install$;

create or replace trigger jobs_insert instead of insert on awa.jobs
    for each row execute function awa.view_insert();

comment on trigger jobs_insert on awa.jobs is 'Enqueues what is inserted, with the checks of awa.enqueue.';
