-- Take the unique keys of a batch of which some jobs replace what holds their key, or fail: the part of awa.enqueue_batch
-- for policies other than skip. What is held by a job outside of the batch is replaced here; inside of the batch, a job that
-- replaces an earlier one hands it its args and due time.
--   p_keys, p_key_ids     the keys wanted, distinct and ascending, and the first job that asks for each
--   p_ids, p_slots, p_states, p_policies, dues, args    of the jobs of the batch; see awa.batch_unique_keys, awa.enqueue_batch
-- Answers the holder of each key; due times and args with which the jobs of the batch are to be inserted; and outcomes, null
-- where the holder says it (inserted if it is the job itself, else duplicate).
-- Only a holder that waits for a run is locked: a lock on a running one would keep its worker from settling it.
-- Index: the primary keys. Locks the jobs to be replaced in id order, then takes the keys that are free, in key order. The
-- keys that those jobs hold need no lock: whoever gives one back locks its job first.
-- Loses: where others take the key or claim the job meanwhile, it undoes and goes round again; AWA01 after rounds_max rounds.
create or replace function awa.resolve_conflicts(
    p_keys bytea[],
    p_key_ids bigint[],
    p_ids bigint[],
    p_slots integer[],
    p_states smallint[],
    p_policies text[],
    inout dues timestamptz[],
    inout args jsonb[],
    out holders bigint[],
    out outcomes text[]
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $resolve_conflicts$
declare
    -- The job of the batch that holds the key of a slot, by its place; the last job that replaces a holder outside of it.
    firsts    integer[] := array_fill(null::integer, array[cardinality(p_keys)]);
    lasts     integer[] := firsts;
    replaced  awa.jobs_hot[];
    in_reach  bigint[];
    slot      integer;
    changed   awa.jobs_hot;
    job       awa.jobs_hot;
begin
    select locked.holders, locked.jobs
      into holders, replaced
      from awa.lock_conflicts(
               p_keys, p_key_ids,
               array(select bool_or(given.policy = 'replace')
                       from unnest(p_slots, p_policies) as given (slot, policy)
                      where given.slot is not null
                      group by given.slot
                      order by given.slot)) as locked;
    in_reach := array(select listed.id from unnest(replaced) as listed);
    outcomes := array_fill(null::text, array[cardinality(p_ids)]);
    for place in 1..cardinality(p_ids) loop
        slot := p_slots[place];
        continue when slot is null;
        if holders[slot] = p_ids[place] then
            firsts[slot] := place;
        elsif p_policies[place] = 'error' then
            -- A job of this call is never seen by anybody: it is named by its place, and has no id to be told.
            raise exception '%', format('%s%s holds the unique key',
                    case when cardinality(p_ids) > 1 then format('jobs[%s]: ', place - 1) else '' end,
                    case when firsts[slot] is not null then format('jobs[%s] of the same call', firsts[slot] - 1)
                         else format('job %s', holders[slot]) end)
                using errcode = 'AWA02', detail = case when firsts[slot] is null then holders[slot]::text
                                                       else format('jobs[%s] jobs[%s]', place - 1, firsts[slot] - 1) end,
                      schema = 'awa', table = 'job_unique_claims';
        elsif p_policies[place] = 'replace' and (firsts[slot] is not null or holders[slot] = any (in_reach)) then
            outcomes[place] := 'replaced';
            if firsts[slot] is not null then
                dues[firsts[slot]] := dues[place];
                args[firsts[slot]] := args[place];
            end if;
            lasts[slot] := place;
        end if;
    end loop;
    foreach job in array replaced loop
        slot := array_position(holders, job.id);
        changed := job;
        changed.args := args[lasts[slot]];
        changed.run_at := dues[lasts[slot]];
        if job.state <> 'retryable' then
            changed.state := case when changed.run_at <= now() then 'available' else 'scheduled' end;
        end if;
        perform awa.place_job(job, changed);
    end loop;
    -- A job of the batch that was given another due time may begin in a state in which it does not hold the key.
    delete from awa.job_unique_claims as claim
     where (claim.unique_key, claim.job_id) in (
         select p_keys[p_slots[own.place]], p_ids[own.place]
           from unnest(firsts, lasts) as own (place, last)
          where own.last is not null
            and own.place is not null
            and p_states[own.place] & awa.state_bit(
                    case when dues[own.place] <= now() then 'available' else 'scheduled' end::awa.job_state) = 0);
end
$resolve_conflicts$;
