-- Write a job that the caller has locked and changed: in place where its table allows that, else by one statement that
-- deletes it where it is and inserts it where its state belongs.
--   p_old  the row as awa.lock_jobs answered it
--   p_new  the row as it shall be; segment and seq do not matter
-- scheduled and retryable go to scheduled_jobs, available and running into the current segment, all others to the parked.
-- A job that becomes available, or changes its lane, moves to the end of its lane with a fresh seq, and its queue is woken.
-- The worker of one that stops running is told.
-- One that stays available in its lane keeps its place: claims that met it locked have passed it, and a look finds it again.
-- Every column comes from p_new (the lists are generated), so that a move loses none. created_at and id never change.
-- Index: the primary keys. Locks the unique claim of the job, if it has one.
-- Fails with unique_violation where another job holds a key that the new state needs: take it first (awa.take_unique_keys)
-- to learn who.
do $install$
declare
    columns   constant text := awa.job_columns('id');
    -- What the dispatch index covers does not change in place.
    unindexed constant text := awa.job_columns('id', 'kind', 'queue', 'priority');
begin
    execute replace(replace(replace(replace($function$
create or replace function awa.place_job(p_old awa.jobs_hot, p_new awa.jobs_hot) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $body$
declare
    was_deferred constant boolean := p_old.segment is null;
    is_deferred  constant boolean := p_new.state in ('scheduled', 'retryable');
begin
    if was_deferred and is_deferred then
        update awa.scheduled_jobs as job
           set (@columns) = (@new)
         where job.id = p_old.id;
        return;
    end if;
    if p_new.state = p_old.state
        and p_new.queue = p_old.queue and p_new.priority = p_old.priority and p_new.kind = p_old.kind
    then
        update awa.jobs_hot as job
           set (@unindexed) = (@still)
         where job.segment = p_old.segment
           and job.id = p_old.id;
        return;
    end if;
    if is_deferred then
        with gone as (
            delete from awa.jobs_hot as job where job.segment = p_old.segment and job.id = p_old.id returning job.id
        )
        insert into awa.scheduled_jobs (id, @columns) select gone.id, @new from gone;
    elsif was_deferred then
        with gone as (
            delete from awa.scheduled_jobs as job where job.id = p_old.id returning job.id
        )
        insert into awa.jobs_hot (id, segment, @columns)
        select gone.id, case when p_new.state in ('available', 'running')
                             then (select (ring.current % 8)::smallint from awa.ring as ring) else -1 end, @new
          from gone;
    else
        with gone as (
            delete from awa.jobs_hot as job where job.segment = p_old.segment and job.id = p_old.id returning job.id
        )
        insert into awa.jobs_hot (id, segment, @columns)
        select gone.id, case when p_new.state in ('available', 'running')
                             then (select (ring.current % 8)::smallint from awa.ring as ring) else -1 end, @new
          from gone;
    end if;
    if p_new.state = 'available' then
        perform awa.wake(p_new.queue);
    end if;
    if p_old.state = 'running' and p_new.state <> 'running' then
        perform awa.tell_worker(p_old.attempted_by, p_old.id, p_old.run_lease,
            case p_new.state when 'cancelled' then 'cancelled' else 'answered' end);
    end if;
end
$body$
$function$,
        '@columns', columns),
        '@new', 'p_new.' || replace(columns, ', ', ', p_new.')),
        '@unindexed', unindexed),
        '@still', 'p_new.' || replace(unindexed, ', ', ', p_new.'));
end
$install$;
