-- Take unique keys for jobs about to be inserted, or learn who holds them.
--   p_keys   distinct keys in ascending order, so that two batches cannot wait for each other
--   p_ids    the jobs that ask for them, same order
-- Answers the holder of each key, same order: the asking job itself where it got the key. Never an empty place.
-- Waits for open transactions that have inserted or are giving back one of the keys.
-- Index: job_unique_claims_pkey. Locks the claims it inserts, in key order; none of those it only reads. A round in which a
-- key was given back is undone (a subtransaction) and begun again.
-- Loses: a key that changes hands between every two of its looks ends in an error of SQLSTATE AWA01 after rounds_max rounds.
-- A caller in REPEATABLE READ may get 40001 instead of a holder that its snapshot cannot see.
create or replace function awa.take_unique_keys(p_keys bytea[], p_ids bigint[])
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $take_unique_keys$
declare
    rounds_max constant integer := 100;
    holders    bigint[];
begin
    for round in 1..rounds_max loop
        begin
            holders := awa.try_unique_keys(p_keys, p_ids);
            if array_position(holders, null) is null then
                return holders;
            end if;
            -- A key was given back between the two. Taking it now, with higher ones in hand, would be out of order: all are
            -- given back, and whoever waits for one goes on.
            raise exception 'spoilt' using errcode = 'AWA00';
        exception when sqlstate 'AWA00' then
            null;
        end;
    end loop;
    raise exception 'a unique key changed hands % times while it was looked up', rounds_max
        using errcode = 'AWA01', schema = 'awa', table = 'job_unique_claims',
              hint = 'Enqueue again: nothing was written.';
end
$take_unique_keys$;

-- One round of awa.take_unique_keys, without a subtransaction: who has one of his own undoes it if a key was given back.
--   p_keys, p_ids  as there
-- Answers the holder of each key, same order; null for one that was given back between the two statements.
-- Waits and locks as awa.take_unique_keys.
create or replace function awa.try_unique_keys(p_keys bytea[], p_ids bigint[])
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
    set enable_bitmapscan = off
    set enable_hashjoin = off
    set enable_mergejoin = off
    set jit = off
as $try_unique_keys$
begin
    -- Two statements: one that inserts and looks up sees nothing of a claim that it had to wait for.
    insert into awa.job_unique_claims (unique_key, job_id)
    select wanted.unique_key, wanted.job_id
      from unnest(p_keys, p_ids) as wanted (unique_key, job_id)
     order by wanted.unique_key
        on conflict (unique_key) do nothing;
    -- At REPEATABLE READ the snapshot may still show the claim of somebody who has given it back, beside our own.
    return array(
        select (select claim.job_id
                  from awa.job_unique_claims as claim
                 where claim.unique_key = wanted.unique_key
                 order by claim.job_id = wanted.job_id desc
                 limit 1)
          from unnest(p_keys, p_ids) with ordinality as wanted (unique_key, job_id, place)
         order by wanted.place);
end
$try_unique_keys$;
