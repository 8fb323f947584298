-- Enqueue one job. A job whose unique key is held is not inserted; what to do instead (replace, refuse) would be a sibling.
--   p_run_at         when it is due; null: now. Due jobs go into the ring, at their due time; others wait in scheduled_jobs.
--   p_unique_key     from awa.unique_key; null: not unique. p_unique_states: the states in which the key is held, as bits.
--   The others       as the columns of the same names
-- Answers the id of the new job or, its sign turned, the id of the job that holds the key.
-- Waits only for an open transaction that has the same unique key in hand.
-- Index: none but the unique claim's. Locks the rows it inserts, the unique claim first.
-- One branch a segment, no routing, no settings: each would cost a tenth of the whole call (benches/README.md).
do $install$
declare
    branch constant text := $branch$
        when @segment then
            insert into awa.jobs_hot_@segment (id, run_at, timeout, priority, max_attempts, unique_states,
                                               kind, queue, args, metadata, tags, trace_context, unique_key)
            values (job_id, due, p_timeout, p_priority, p_max_attempts, p_unique_states,
                    p_kind, p_queue, p_args, p_metadata, p_tags, p_trace_context, p_unique_key);$branch$;
    branches text;
begin
    select string_agg(replace(branch, '@segment', segment::text), '' order by segment)
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
as $enqueue_one$
declare
    job_id bigint := pg_catalog.nextval('awa.job_id');
    due    timestamptz := coalesce(p_run_at, pg_catalog.now());
    is_due boolean := due <= pg_catalog.now();
    holder bigint;
begin
    if p_unique_key is not null
        and (p_unique_states & awa.state_bit(case when is_due then 'available'::awa.job_state else 'scheduled' end)) <> 0
    then
        -- Most keys are free: the loop that knows all the answers is entered only where this first try fails.
        insert into awa.job_unique_claims (unique_key, job_id)
        values (p_unique_key, job_id)
            on conflict (unique_key) do nothing;
        if not found then
            holder := (awa.take_unique_keys(array[p_unique_key], array[job_id]))[1];
            if holder <> job_id then
                return -holder;
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
    case (select ring.current % 8 from awa.ring as ring)@branches
    end case;
    perform awa.wake(p_queue);
    return job_id;
end
$enqueue_one$
$function$, '@branches', branches);
end
$install$;
