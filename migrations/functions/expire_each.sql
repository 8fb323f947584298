-- End the waiting of jobs that nobody has answered, the batch at once where it can be, else one by one: one bad row never
-- stops the rest.
--   p_ids        jobs that wait, in id order; the caller holds their locks
--   p_callbacks  what each waits for; the caller holds their locks, too
-- A job whose next state needs a unique key that another one holds ends cancelled, as a duplicate, or failed without the key if
-- its attempts are spent. One that cannot be stored as retryable ends failed. Where even that fails, and where the cause may
-- pass, it waits on, with state null in the answer.
-- Locks the unique claims that the jobs hold in key order; a job that must take a key waits for it as long as the caller's
-- lock_timeout allows, and once one has waited in vain, the others do so no longer.
create or replace function awa.expire_each(p_ids bigint[], p_callbacks uuid[])
    returns table (id bigint, state awa.job_state)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
#variable_conflict use_column
declare
    keys     bytea[];
    together integer[];
    alone    integer[];
    place    integer;
    code     text;
    message  text;
    ended    awa.job_state;
    ends     awa.job_state[];
begin
    select array_agg(waiting.unique_key),
           array_agg(waiting.place order by waiting.place) filter (where not waiting.takes_key),
           array_agg(waiting.place order by waiting.unique_key, waiting.place) filter (where waiting.takes_key)
      into keys, together, alone
      from (select asked.place::integer as place, job.unique_key,
                   awa.claim_of(job.unique_key, job.unique_states, job.state,
                                case when job.attempt < job.max_attempts then 'retryable' else 'failed' end::awa.job_state)
                       = 'wanted' as takes_key
              from unnest(p_ids) with ordinality as asked (id, place)
             cross join lateral (
                   select parked.unique_key, parked.unique_states, parked.state, parked.attempt, parked.max_attempts
                     from awa.jobs_hot_parked as parked
                    where parked.id = asked.id
                   offset 0
             ) as job) as waiting;
    if together is not null then
        begin
            perform awa.lock_unique_claims(keys);
            foreach place in array together loop
                ends := ends || awa.expire_one(p_ids[place], p_callbacks[place], null, null);
            end loop;
            return query
            select p_ids[done.place], done.state from unnest(together, ends) as done (place, state);
        exception when others then
            alone := together || alone;
        end;
    end if;
    foreach place in array coalesce(alone, '{}') loop
        ended := null;
        begin
            ended := awa.expire_one(p_ids[place], p_callbacks[place], null, null);
        exception when others then
            get stacked diagnostics code = returned_sqlstate, message = message_text;
            if awa.is_passing(code) then
                -- Whoever is in the way may be in the way of many: the rest of this pass does not wait for him.
                perform set_config('lock_timeout', '1ms', true);
            else
                begin
                    ended := awa.expire_one(p_ids[place], p_callbacks[place],
                                            case when code = '23505' then message end,
                                            case when code <> '23505' then 'it cannot be retried: ' || message end);
                exception when others then
                    ended := null;
                end;
            end if;
        end;
        id := p_ids[place];
        state := ended;
        return next;
    end loop;
end
$$;

-- End the waiting of one job whose callback nobody has answered in time.
--   p_id, p_callback  the job and what it waits for; the caller holds both locks
--   p_conflict        null, or why it cannot have its unique key: see awa.answered_by
--   p_fault           null, or why it can only end failed
-- Answers its new state. Index: the primary keys. Locks the unique claim of the job.
create or replace function awa.expire_one(p_id bigint, p_callback uuid, p_conflict text, p_fault text)
    returns awa.job_state
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set jit = off
as $$
declare
    job    awa.jobs_hot;
    wanted awa.jobs_hot;
    waited awa.callbacks;
begin
    select parked.* into job from awa.jobs_hot_parked as parked where parked.id = p_id;
    select known.* into waited from awa.callbacks as known where known.id = p_callback;
    wanted := awa.answered_by('timeout', job, null,
        awa.join_error(format('nobody answered the callback that it waited for by %s (lease %s)',
                              waited.due_at, waited.run_lease), p_fault), p_conflict);
    if p_fault is not null then
        wanted.state := 'failed';
        wanted.run_at := job.run_at;
        wanted.finalized_at := now();
    end if;
    perform awa.place_job(job, wanted);
    update awa.callbacks as known
       set answered_at = clock_timestamp(), answer = 'timeout'
     where known.id = p_callback;
    return wanted.state;
end
$$;
