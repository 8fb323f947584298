-- Enqueue many jobs given as JSON: the contract for every language, see docs/producers.md.
--   jobs  an array of objects, whose keys are the options of awa.enqueue
-- Answers the id and the outcome of each job, in the order given: inserted, or duplicate or replaced with the id of the job
-- that holds the unique key. All or none.
-- Fails with 22023 for bad input, AWA02 for a conflict under the policy error, AWA01 where a key never settles. Locks and
-- waits as awa.enqueue_batch.
create or replace function awa.enqueue_many(jobs jsonb)
    returns table (job_id bigint, outcome text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set jit = off
as $enqueue_many$
#variable_conflict use_column
declare
    batch record;
begin
    if jobs is null or jsonb_typeof(jobs) <> 'array' then
        perform awa.refuse('jobs', case when jobs is not null then awa.json_kind(jobs) end, 'an array');
    elsif jobs = '[]' then
        return;
    end if;
    select array_agg(job.kind order by given.place) as kinds,
           array_agg(job.queue order by given.place) as queues,
           array_agg(job.priority order by given.place) as priorities,
           array_agg(job.args order by given.place) as args,
           array_agg(job.run_at order by given.place) as run_ats,
           array_agg(job.run_in order by given.place) as delays,
           array_agg(job.max_attempts order by given.place) as max_attempts,
           array_agg(job.timeout order by given.place) as timeouts,
           array_agg(job.tags order by given.place) as tags,
           array_agg(job.metadata order by given.place) as metadata,
           array_agg(job.trace_context order by given.place) as trace_contexts,
           array_agg(job.unique_states order by given.place) as states,
           array_agg(job.by_queue order by given.place) as by_queue,
           array_agg(job.by_args order by given.place) as by_args,
           array_agg(job.fields order by given.place) as fields,
           array_agg(job.period order by given.place) as periods,
           array_agg(job.on_conflict order by given.place) as on_conflicts
      into batch
      from jsonb_array_elements(jobs) with ordinality as given (job, place)
     cross join lateral awa.read_job(given.job, 'jobs[' || given.place - 1 || ']') as job;
    return query
    select enqueued.job_id, enqueued.outcome
      from awa.enqueue_batch(
               batch.kinds, batch.queues, batch.priorities, batch.args, batch.run_ats, batch.delays, batch.max_attempts,
               batch.timeouts, batch.tags, batch.metadata, batch.trace_contexts, batch.states, batch.by_queue,
               batch.by_args, batch.fields, batch.periods, batch.on_conflicts
           ) with ordinality as enqueued (job_id, outcome, place)
     order by enqueued.place;
end
$enqueue_many$;
