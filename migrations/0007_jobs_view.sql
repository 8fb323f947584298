-- Why: one relation to read. Completed rows past their retention are hidden although their segment still stands.
-- Previous binary: there is none.
-- Locks: none that others could hold; every object is new.

create view awa.jobs as
select job.id, job.kind, job.queue, job.state, job.priority, job.attempt, job.max_attempts, job.run_lease,
       job.run_at, job.created_at, job.attempted_at, job.heartbeat_at, job.deadline_at, job.finalized_at,
       job.timeout, job.attempted_by, job.snoozes, job.args, job.metadata, job.tags, job.unique_key,
       job.unique_states, job.progress, job.result, job.errors, job.errors_dropped, job.trace_context
  from awa.jobs_hot as job
 where job.state <> 'completed'
    -- For ever may be longer than the calendar.
    or job.finalized_at > now() - least(interval '1000 years', coalesce(
           (select setting.completed_retention from awa.queues as setting where setting.name = job.queue),
           (select ring.completed_retention from awa.ring as ring)))
union all
select job.id, job.kind, job.queue, job.state, job.priority, job.attempt, job.max_attempts, job.run_lease,
       job.run_at, job.created_at, job.attempted_at, job.heartbeat_at, job.deadline_at, job.finalized_at,
       job.timeout, job.attempted_by, job.snoozes, job.args, job.metadata, job.tags, job.unique_key,
       job.unique_states, job.progress, job.result, job.errors, job.errors_dropped, job.trace_context
  from awa.scheduled_jobs as job;

comment on view awa.jobs is 'Every job, whatever its plane. Can be written like a table: triggers enqueue, change and delete, one writer at a time.';

-- Columns that a move takes over as they are, for functions that move rows: generated, so that none is forgotten.
create function awa.job_columns(variadic changed text[]) returns text
    language sql stable
    set search_path = pg_catalog, pg_temp
return (
    select string_agg(quote_ident(attname), ', ' order by attnum)
      from pg_attribute
     where attrelid = 'awa.scheduled_jobs'::regclass
       and attnum > 0
       and not attisdropped
       and attname <> all (changed)
);
