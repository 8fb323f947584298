-- Lock the jobs that hold some unique keys and wait for a run, and take the keys that nobody holds.
--   p_keys      distinct keys in ascending order
--   p_ids       the jobs that ask for them, same order
--   p_replaces  whether the holder is to be locked, same order
-- Answers the holder of each key, and the locked jobs as they are now, in id order. A holder that is not locked was seen in
-- a state in which it does not wait.
-- Index: the primary keys. Locks the jobs in id order, then inserts claims in key order. A round that others spoilt is
-- undone with all its locks, as nobody may lock a job who has keys in hand. AWA01 after rounds_max rounds.
create or replace function awa.lock_conflicts(
    p_keys bytea[],
    p_ids bigint[],
    p_replaces boolean[],
    out holders bigint[],
    out jobs awa.jobs_hot[]
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $lock_conflicts$
declare
    rounds_max constant integer := 100;
    waiting    bigint[];
    passed     bigint[];
    free       integer[];
    taken      bigint[];
begin
    for round in 1..rounds_max loop
        begin
            select coalesce(array_agg(held.id) filter (where held.waits), '{}'),
                   coalesce(array_agg(held.id) filter (where not held.waits), '{}')
              into waiting, passed
              from unnest(p_keys, p_replaces) as wanted (unique_key, replaces)
             cross join lateral (
                   select claim.job_id as id,
                          exists (select from awa.scheduled_jobs as job where job.id = claim.job_id)
                              or exists (select from awa.jobs_hot as job
                                          where job.id = claim.job_id and job.state = 'available') as waits
                     from awa.job_unique_claims as claim
                    where claim.unique_key = wanted.unique_key
             ) as held
             where wanted.replaces;
            jobs := array(
                select job
                  from awa.lock_jobs(waiting) as job
                 where job.state in ('scheduled', 'available', 'retryable')
                   and job.unique_states & awa.state_bit(job.state) <> 0);
            -- Claimed or gone since: no lock is kept on a running job.
            if cardinality(jobs) < cardinality(waiting) then
                raise exception 'spoilt' using errcode = 'AWA00';
            end if;
            holders := array(
                select case when locked.id is not null then locked.id end
                  from unnest(p_keys) with ordinality as wanted (unique_key, place)
                  left join unnest(jobs) as locked on locked.unique_key = wanted.unique_key
                 order by wanted.place);
            free := array(select wanted.place::integer from unnest(holders) with ordinality as wanted (holder, place)
                           where wanted.holder is null order by wanted.place);
            if cardinality(free) > 0 then
                -- In this subtransaction, not in one inside it: whoever waits for a key of that would go on to wait for the
                -- whole transaction, although the key is given back with the round.
                taken := awa.try_unique_keys(
                    array(select p_keys[place] from unnest(free) with ordinality as one (place, nth) order by nth),
                    array(select p_ids[place] from unnest(free) with ordinality as one (place, nth) order by nth));
                if array_position(taken, null) is not null then
                    raise exception 'spoilt' using errcode = 'AWA00';
                end if;
                for nth in 1..cardinality(free) loop
                    holders[free[nth]] := taken[nth];
                end loop;
            end if;
            if not exists (
                select from unnest(holders, p_ids, p_replaces) as wanted (holder, id, replaces)
                 where wanted.replaces
                   and wanted.holder <> wanted.id
                   and wanted.holder <> all (passed)
                   and wanted.holder <> all (waiting))
            then
                return;
            end if;
            raise exception 'spoilt' using errcode = 'AWA00';
        exception when sqlstate 'AWA00' then
            null;
        end;
    end loop;
    raise exception 'a unique key changed hands % times while it was looked up', rounds_max
        using errcode = 'AWA01', schema = 'awa', table = 'job_unique_claims',
              hint = 'Enqueue again: nothing was written.';
end
$lock_conflicts$;
