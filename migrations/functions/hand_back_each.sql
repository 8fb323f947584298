-- Hand overdue attempts back, the batch at once where it can be, else row by row: one bad row never stops the rest.
--   p_segments, p_ids, p_leases   where the rows are, and which attempts; the caller holds their locks
--   p_keys                        the unique keys of the rows, null where there is none
--   p_alone                       true for a row that must take a key
--   p_errors                      why, one text each
-- A row whose key another job holds ends cancelled, as a duplicate, or failed if its attempts are spent. A row that cannot be
-- stored ends failed. Where even that fails, and where the cause may pass, it stays as it is, with state null in the answer.
-- Locks: as awa.hand_back; a row that must take a key waits for it as long as the caller's lock_timeout allows, and once one
-- has waited in vain, the others do so no longer. The caller limits lock_timeout for itself, which ends this with it.
create or replace function awa.hand_back_each(
    p_segments smallint[],
    p_ids bigint[],
    p_leases bigint[],
    p_keys bytea[],
    p_alone boolean[],
    p_errors text[]
)
    returns table (id bigint, state awa.job_state)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    together integer[];
    alone    integer[];
    place    integer;
    code     text;
    message  text;
    ended    awa.job_state;
begin
    select array_agg(wanted.place order by wanted.key nulls first, wanted.id) filter (where not wanted.alone),
           array_agg(wanted.place order by wanted.key, wanted.id) filter (where wanted.alone)
      into together, alone
      from unnest(p_ids, p_keys, p_alone) with ordinality as wanted (id, key, alone, place);
    if together is not null then
        begin
            perform awa.lock_unique_claims(p_keys);
            return query
            select handed.id, handed.state
              from awa.hand_back(array(select p_segments[nth] from unnest(together) as nth),
                                 array(select p_ids[nth] from unnest(together) as nth),
                                 array(select p_leases[nth] from unnest(together) as nth),
                                 array(select p_errors[nth] from unnest(together) as nth),
                                 null, false) as handed;
        exception when others then
            alone := together || alone;
        end;
    end if;
    foreach place in array coalesce(alone, '{}') loop
        ended := null;
        begin
            select handed.state into ended
              from awa.hand_back(p_segments[place:place], p_ids[place:place], p_leases[place:place],
                                 p_errors[place:place], null, false) as handed;
        exception when others then
            get stacked diagnostics code = returned_sqlstate, message = message_text;
            if awa.is_passing(code) then
                -- Whoever is in the way may be in the way of many: the rest of this pass does not wait for him.
                perform set_config('lock_timeout', '1ms', true);
            else
                begin
                    select handed.state into ended
                      from awa.hand_back(p_segments[place:place], p_ids[place:place], p_leases[place:place],
                               array[p_errors[place] || case when code = '23505'
                                     then '; it cannot have its unique key: '
                                     else '; it cannot be retried: ' end || message],
                               case when code = '23505' then 'cancelled' else 'failed' end::awa.job_state,
                               code = '23505') as handed;
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
