-- Promote deferred jobs whose time has come, oldest first, and wake their queues.
--   p_after_run_at, p_after_id  start behind this row, to pass by the dead rows that an old snapshot keeps at the head of
--                               the index; null starts at the head
--   p_batch                     how many rows at most
-- promoted, refused and left count rows: moved, ended with an error entry because they cannot be moved, and left as they
-- were. last_run_at and last_id name the last row looked at, null where there was none. next_due_in is seconds until the
-- next row beyond these is due, 0 where more are due now, null where nothing waits. crowding is null unless the batch is full:
-- then awa.crowding of it.
-- A row that must take a unique key goes alone, and a batch that fails is tried again row by row, so that one bad row
-- never stops the rest. A row that somebody has locked is passed by. Without due rows nothing is written.
-- Index: scheduled_jobs_due. Locks: the rows, in order; then unique claims in key order, for at most 50 ms each.
create or replace function awa.promote(
    p_after_run_at timestamptz,
    p_after_id bigint,
    p_batch integer,
    out promoted integer,
    out refused integer,
    out left_alone integer,
    out last_run_at timestamptz,
    out last_id bigint,
    out next_due_in double precision,
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
    together tid[];
    alone    tid[];
    spent    tid[];
    looked   bigint;
    queues   text[];
begin
    select count(*), array_agg(due.queue),
           array_agg(due.tuple order by due.run_at, due.id) filter (where not due.spent and not due.takes_key),
           array_agg(due.tuple order by due.run_at, due.id) filter (where not due.spent and due.takes_key),
           array_agg(due.tuple order by due.run_at, due.id) filter (where due.spent),
           (array_agg(due.id order by due.run_at desc, due.id desc))[1],
           -- The caller's calendar ends before PostgreSQL's does.
           greatest(max(due.run_at), '0001-01-01 00:00:00+00')
      into looked, queues, together, alone, spent, last_id, last_run_at
      from (select job.ctid as tuple, job.run_at, job.id, job.queue,
                   job.state = 'retryable' and job.attempt >= job.max_attempts as spent,
                   job.unique_key is not null
                       and (job.unique_states & awa.state_bit('available')) <> 0
                       and (job.unique_states & awa.state_bit(job.state)) = 0 as takes_key
              from awa.scheduled_jobs as job
             where (job.run_at, job.id)
                       > (coalesce(p_after_run_at, '-infinity'), coalesce(p_after_id, -9223372036854775808))
               and job.run_at <= now()
               -- A state of a newer release is its own affair.
               and job.state in ('scheduled', 'retryable')
             order by job.run_at, job.id
             limit p_batch
               for update skip locked) as due;
    select done.promoted, done.refused, done.left_alone
      into promoted, refused, left_alone
      from awa.promote_locked(together, alone, spent) as done;
    if looked >= p_batch then
        next_due_in := 0;
        crowding := awa.crowding(queues);
    else
        select extract(epoch from job.run_at - now())::double precision
          into next_due_in
          from awa.scheduled_jobs as job
         where job.run_at > now()
           and job.run_at < 'infinity'
           and job.state in ('scheduled', 'retryable')
         order by job.run_at, job.id
         limit 1;
    end if;
end
$$;
