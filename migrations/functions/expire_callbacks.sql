-- End the waiting of jobs whose callback nobody has answered in time, the oldest first: retryable with the ordinary backoff
-- while attempts are left, else failed. Progress stays.
--   p_after_due, p_after_id  go on behind this callback; null starts with the oldest
--   p_limit                  how many callbacks at most
-- Arrays, same order: the jobs, and their state now; null where a job could not be changed and waits on. last_due and last_id
-- name the last callback looked at, null when there are no more that are due. next_due_in is seconds until the next one is, null where
-- nothing waits.
-- A job that somebody has locked is passed by, and so an answer in progress wins. One that has stopped waiting for another reason
-- leaves its callback behind, which is void from then on. Two passes at once do no harm.
-- Index: callbacks_due, and the primary keys. Locks the rows of the jobs, waiting for none, then their callbacks, then as
-- awa.expire_each.
create or replace function awa.expire_callbacks(
    p_after_due timestamptz,
    p_after_id uuid,
    p_limit integer,
    out ids bigint[],
    out states awa.job_state[],
    out last_due timestamptz,
    out last_id uuid,
    out next_due_in double precision
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
    set lock_timeout = '50ms'
as $$
declare
    due    record;
    locked record;
    late   record;
begin
    select count(*) as number,
           coalesce(array_agg(open.id), '{}') as callbacks,
           coalesce(array_agg(open.job_id), '{}') as jobs,
           -- The caller's calendar ends before PostgreSQL's does.
           greatest(max(open.due_at), '0001-01-01 00:00:00+00') as last_due,
           (array_agg(open.id order by open.due_at desc, open.id desc))[1] as last_id
      into due
      from (select waited.id, waited.job_id, waited.due_at
              from awa.callbacks as waited
             where waited.parked
               and waited.answered_at is null
               and waited.due_at <= now()
               and (waited.due_at, waited.id)
                       > (coalesce(p_after_due, '-infinity'), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
             order by waited.due_at, waited.id
             limit p_limit) as open;
    if due.number > 0 then
        -- Parked once, a job that does not wait under that lease never will again: no lock of the job is needed to say so.
        update awa.callbacks as void
           set answered_at = clock_timestamp(), answer = 'void'
         where void.id = any (array(
               select passed_by.id
                 from awa.callbacks as passed_by
                where passed_by.id = any (due.callbacks)
                  and passed_by.answered_at is null
                  and not exists (
                      select from awa.jobs_hot_parked as job
                       where job.id = passed_by.job_id
                         and job.run_lease = passed_by.run_lease
                         and job.state = 'waiting_external')
                  for update skip locked));
        select array_agg(job.id order by job.id) as ids
          into locked
          from (select waiting.id
                  from awa.jobs_hot_parked as waiting
                 where waiting.id = any (due.jobs)
                   and waiting.state = 'waiting_external'
                 order by waiting.id
                   for update skip locked) as job;
        -- Judged on the rows as locked: an answer that came first has been given.
        select array_agg(job.id order by job.id) as ids, array_agg(job.callback order by job.id) as callbacks
          into late
          from (select waiting.id, open.id as callback
                  from unnest(locked.ids) as asked (id)
                 cross join lateral (
                       select parked.id, parked.run_lease from awa.jobs_hot_parked as parked where parked.id = asked.id offset 0
                 ) as waiting
                  join awa.callbacks as open
                    on open.job_id = waiting.id
                   and open.run_lease = waiting.run_lease
                 where open.id = any (due.callbacks)
                   and open.parked
                   and open.answered_at is null
                   for update of open) as job;
        if late.ids is not null then
            select array_agg(ended.id), array_agg(ended.state)
              into ids, states
              from awa.expire_each(late.ids, late.callbacks) as ended;
        end if;
    end if;
    if due.number >= p_limit then
        last_due := due.last_due;
        last_id := due.last_id;
        next_due_in := 0;
    else
        select extract(epoch from waited.due_at - now())::double precision
          into next_due_in
          from awa.callbacks as waited
         where waited.parked
           and waited.answered_at is null
           and waited.due_at > now()
         order by waited.due_at, waited.id
         limit 1;
    end if;
    ids := coalesce(ids, '{}');
    states := coalesce(states, '{}');
end
$$;
