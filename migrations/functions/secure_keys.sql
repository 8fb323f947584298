-- Make sure of the unique keys of jobs that the caller has locked and is about to change.
--   p_ids     the jobs, in id order
--   p_keys    their unique keys, same order, or null
--   p_claims  what the change does to the key: none; held (it has it now, and may keep it or give it back); wanted (its next
--             state needs it)
-- Answers one id a job, same order: its own where it may be changed, that of the job which holds the key it wants, or null
-- where somebody is in the way for longer than a second. Of two jobs that want one key the first gets it.
-- Locks the claims in key order, all at once, or one by one where that cannot be done.
-- Index: job_unique_claims_pkey.
create or replace function awa.secure_keys(p_ids bigint[], p_keys bytea[], p_claims text[]) returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '1s'
as $$
declare
    holders bigint[] := p_ids;
    wanted  record;
    taken   bigint[];
    held    record;
begin
    if array_position(p_claims, 'held') is null and array_position(p_claims, 'wanted') is null then
        return holders;
    end if;
    begin
        perform awa.lock_unique_claims(array(select asked.unique_key
                                               from unnest(p_keys, p_claims) as asked (unique_key, claim)
                                              where asked.claim = 'held'));
        select array_agg(first.unique_key order by first.unique_key) as keys,
               array_agg(first.id order by first.unique_key) as ids
          into wanted
          from (select asked.unique_key, min(asked.id) as id
                  from unnest(p_ids, p_keys, p_claims) as asked (id, unique_key, claim)
                 where asked.claim = 'wanted'
                 group by asked.unique_key) as first;
        if wanted.keys is not null then
            taken := awa.take_unique_keys(wanted.keys, wanted.ids);
            holders := array(
                select case when asked.claim = 'wanted' then taken[asked.slot] else asked.id end
                  from (select given.*,
                               dense_rank() over (partition by given.claim = 'wanted' order by given.unique_key) as slot
                          from unnest(p_ids, p_keys, p_claims) with ordinality
                               as given (id, unique_key, claim, place)) as asked
                 order by asked.place);
        end if;
        return holders;
    exception when lock_not_available or deadlock_detected then
        holders := p_ids;
    end;
    for held in
        select asked.id, asked.unique_key, asked.claim, asked.place
          from unnest(p_ids, p_keys, p_claims) with ordinality as asked (id, unique_key, claim, place)
         where asked.claim <> 'none'
         order by asked.unique_key, asked.id
    loop
        begin
            if held.claim = 'wanted' then
                holders[held.place] := (awa.take_unique_keys(array[held.unique_key], array[held.id]))[1];
            else
                perform awa.lock_unique_claims(array[held.unique_key]);
            end if;
        exception when lock_not_available or deadlock_detected then
            holders[held.place] := null;
            -- Whoever is in the way may be in the way of many: the others are not made to wait for him.
            perform set_config('lock_timeout', '1ms', true);
        end;
    end loop;
    return holders;
end
$$;
