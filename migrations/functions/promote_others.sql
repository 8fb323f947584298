-- In a backlog, promote due jobs of other queues than those that crowd it, oldest first: whoever waits behind a million jobs of
-- one queue is not to wait for them.
--   p_crowding                  the queues to pass by
--   p_after_run_at, p_after_id  look behind this row
--   p_look                      how many due rows to look at, at most
--   p_batch                     how many to promote, at most
-- Counts as awa.promote. last_run_at and last_id say how far this has looked; at_end that nothing more is due behind that.
-- crowding is null unless p_batch was reached: then awa.crowding of what was found.
-- What is passed by is read twice at most, and not locked.
-- Index: scheduled_jobs_due. Locks: as awa.promote.
create or replace function awa.promote_others(
    p_crowding text[],
    p_after_run_at timestamptz,
    p_after_id bigint,
    p_look integer,
    p_batch integer,
    out promoted integer,
    out refused integer,
    out left_alone integer,
    out last_run_at timestamptz,
    out last_id bigint,
    out at_end boolean,
    out crowding text[]
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
#variable_conflict use_column
declare
    together   tid[];
    alone      tid[];
    spent      tid[];
    queues     text[];
    end_run_at timestamptz;
    end_id     bigint;
begin
    -- How far this look goes, first: what is passed by need not be gathered then.
    select job.run_at, job.id
      into end_run_at, end_id
      from awa.scheduled_jobs as job
     where (job.run_at, job.id)
               > (coalesce(p_after_run_at, '-infinity'), coalesce(p_after_id, -9223372036854775808))
       and job.run_at <= now()
     order by job.run_at, job.id
    offset p_look - 1
     limit 1;
    at_end := end_run_at is null;
    if at_end then
        end_run_at := now();
        end_id := 9223372036854775807;
    end if;
    select array_agg(due.queue),
           array_agg(due.tuple order by due.run_at, due.id) filter (where not due.spent and not due.takes_key),
           array_agg(due.tuple order by due.run_at, due.id) filter (where not due.spent and due.takes_key),
           array_agg(due.tuple order by due.run_at, due.id) filter (where due.spent),
           max(due.run_at),
           (array_agg(due.id order by due.run_at desc, due.id desc))[1]
      into queues, together, alone, spent, last_run_at, last_id
      from (select job.ctid as tuple, job.run_at, job.id, job.queue,
                   job.state = 'retryable' and job.attempt >= job.max_attempts as spent,
                   job.unique_key is not null
                       and (job.unique_states & awa.state_bit('available')) <> 0
                       and (job.unique_states & awa.state_bit(job.state)) = 0 as takes_key
              from awa.scheduled_jobs as job
             where (job.run_at, job.id)
                       > (coalesce(p_after_run_at, '-infinity'), coalesce(p_after_id, -9223372036854775808))
               and (job.run_at, job.id) <= (end_run_at, end_id)
               and job.run_at <= now()
               and job.queue <> all (p_crowding)
               and job.state in ('scheduled', 'retryable')
             order by job.run_at, job.id
             limit p_batch
               for update skip locked) as due;
    if coalesce(cardinality(queues), 0) >= p_batch then
        at_end := false;
        crowding := awa.crowding(queues);
    else
        last_run_at := end_run_at;
        last_id := end_id;
    end if;
    -- The caller's calendar ends before PostgreSQL's does.
    last_run_at := greatest(last_run_at, '0001-01-01 00:00:00+00');
    select done.promoted, done.refused, done.left_alone
      into promoted, refused, left_alone
      from awa.promote_locked(together, alone, spent) as done;
end
$$;
