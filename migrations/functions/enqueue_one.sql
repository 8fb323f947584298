-- Enqueue one job. A job whose unique key is held is not inserted; what else to do then is awa.enqueue_batch's.
--   p_run_at         when it is due; null: now. Due jobs go into the ring, at their due time; others wait in scheduled_jobs.
--   p_unique_key     from awa.unique_key; null: not unique. p_unique_states: the states in which the key is held, as bits.
--   The others       as the columns of the same names, checked by the caller (Rust's NewJob::prepare, or awa.enqueue)
-- Answers the id of the new job or, its sign turned, the id of the job that holds the key.
-- Waits only for an open transaction that has the same unique key in hand.
-- Index: none but the unique claim's. Locks the rows it inserts, the unique claim first.
-- One branch a segment, no routing, no settings: each would cost a tenth of the whole call (benches/README.md). It runs with
-- the rights of its owner under the search path of whoever calls it, so every name in it says its schema: functions, types
-- (one in pg_temp would come first) and operators (a CASE with a value would look for one as well).
do $install$
declare
    branch constant text := $branch$
    @word current operator(pg_catalog.=) @segment then
        insert into awa.jobs_hot_@segment (id, run_at, timeout, priority, max_attempts, unique_states,
                                           kind, queue, args, metadata, tags, trace_context, unique_key)
        values (job_id, due, p_timeout, p_priority, p_max_attempts, p_unique_states,
                p_kind, p_queue, p_args, p_metadata, p_tags, p_trace_context, p_unique_key);$branch$;
    branches text;
begin
    select string_agg(replace(replace(branch, '@segment', segment::text),
                              '@word', case segment when 0 then 'if' else 'elsif' end), '' order by segment)
      into branches
      from generate_series(0, 7) as segment;
    execute replace($function$
create or replace function awa.enqueue_one(
    p_kind text,
    p_queue text,
    p_priority smallint,
    p_args jsonb,
    p_run_at timestamptz,
    p_max_attempts smallint,
    p_timeout interval,
    p_tags text[],
    p_metadata jsonb,
    p_trace_context text,
    p_unique_key bytea,
    p_unique_states smallint
)
    returns bigint
    language plpgsql
    security definer
as $enqueue_one$
declare
    job_id  bigint := pg_catalog.nextval('awa.job_id');
    due     pg_catalog.timestamptz := coalesce(p_run_at, pg_catalog.now());
    is_due  boolean := due operator(pg_catalog.<=) pg_catalog.now();
    current bigint;
    holder  bigint;
begin
    if p_unique_key is not null
        and (p_unique_states operator(pg_catalog.&)
             awa.state_bit(case when is_due then 'available'::awa.job_state else 'scheduled'::awa.job_state end))
            operator(pg_catalog.<>) 0
    then
        -- Most keys are free: the loop that knows all the answers is entered only where this first try fails.
        insert into awa.job_unique_claims (unique_key, job_id)
        values (p_unique_key, job_id)
            on conflict (unique_key) do nothing;
        if not found then
            holder := (awa.take_unique_keys(array[p_unique_key], array[job_id]))[1];
            if holder operator(pg_catalog.<>) job_id then
                return operator(pg_catalog.-) holder;
            end if;
        end if;
    end if;
    if not is_due then
        insert into awa.scheduled_jobs (id, run_at, timeout, priority, max_attempts, unique_states,
                                        kind, queue, args, metadata, tags, trace_context, unique_key)
        values (job_id, due, p_timeout, p_priority, p_max_attempts, p_unique_states,
                p_kind, p_queue, p_args, p_metadata, p_tags, p_trace_context, p_unique_key);
        return job_id;
    end if;
    current := (select ring.current operator(pg_catalog.%) 8 from awa.ring as ring);@branches
    end if;
    perform awa.wake(p_queue);
    return job_id;
end
$enqueue_one$
$function$, '@branches', branches);
end
$install$;
