-- Why: uniqueness over both planes. A claim row exists if and only if its job is in a state of its mask, on every path:
-- triggers keep it so, and cost nothing for rows without a key.
-- Previous binary: there is none.
-- Locks: ACCESS EXCLUSIVE on tables that are still empty.

create table awa.job_unique_claims (
    unique_key bytea  not null primary key check (length(unique_key) = 16),
    job_id     bigint not null
);

comment on table awa.job_unique_claims is 'Who holds a unique key. Written by triggers on the job tables and by the functions that enqueue.';

create index job_unique_claims_job on awa.job_unique_claims (job_id);

-- One bit a state, in the order of the enum: scheduled is bit 0, cancelled bit 7.
-- Without a setting of search_path, which would keep it from being inlined: the body is bound when it is created.
create function awa.state_bit(state awa.job_state) returns smallint
    language sql immutable parallel safe
return (case state
    when 'scheduled' then 1
    when 'available' then 2
    when 'running' then 4
    when 'waiting_external' then 8
    when 'retryable' then 16
    when 'completed' then 32
    when 'failed' then 64
    when 'cancelled' then 128
end)::smallint;

-- Takes or gives back the key of one row whose plane, existence or state changed.
create function awa.keep_unique_claim() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    holds  boolean := tg_op <> 'INSERT' and old.unique_key is not null
                      and (old.unique_states & awa.state_bit(old.state)) <> 0;
    needs  boolean := tg_op <> 'DELETE' and new.unique_key is not null
                      and (new.unique_states & awa.state_bit(new.state)) <> 0;
    holder bigint;
begin
    if tg_op <> 'DELETE' and new.unique_key is not null
        and (new.unique_states not between 1 and 255 or new.unique_states & 6 = 4)
    then
        perform awa.check_unique_states(new.unique_states, 'unique_states');
    end if;
    if tg_op = 'UPDATE' and holds and needs and old.unique_key = new.unique_key then
        return null;
    end if;
    if holds then
        delete from awa.job_unique_claims as claim
         where claim.unique_key = old.unique_key
           and claim.job_id = old.id;
    end if;
    if needs then
        insert into awa.job_unique_claims (unique_key, job_id)
        values (new.unique_key, new.id)
        on conflict (unique_key) do nothing;
        if not found then
            select claim.job_id into holder
              from awa.job_unique_claims as claim
             where claim.unique_key = new.unique_key
             order by claim.job_id = new.id desc
             limit 1;
            if holder is distinct from new.id then
                raise exception 'job % needs a unique key that job % holds', new.id, holder
                    using errcode = 'unique_violation', constraint = 'job_unique_claims_pkey',
                          schema = 'awa', table = 'job_unique_claims';
            end if;
        end if;
    end if;
    return null;
end
$$;

-- TRUNCATE fires no row triggers: the keys that the rows still hold go in key order.
create function awa.release_unique_claims() returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- awa.recycle has released them before it took the lock: no scan of the whole table while everybody waits.
    if current_setting('awa.claims_released', true) = tg_table_name then
        return null;
    end if;
    execute format(
        'delete from awa.job_unique_claims where unique_key in (
             select claim.unique_key from awa.job_unique_claims as claim
              where claim.job_id in (select job.id from %I.%I as job where job.unique_key is not null)
              order by claim.unique_key for update)', tg_table_schema, tg_table_name);
    return null;
end
$$;

do $claims$
declare
    guarded text;
begin
    foreach guarded in array array['scheduled_jobs', 'jobs_hot_parked']
        || array(select format('jobs_hot_%s', segment) from generate_series(0, 7) as segment)
    loop
        execute format('create trigger unique_claim_taken after insert on awa.%I
                            for each row when (new.unique_key is not null)
                            execute function awa.keep_unique_claim()', guarded);
        execute format('create trigger unique_claim_changed
                            after update of state, unique_key, unique_states on awa.%I
                            for each row when (new.unique_key is not null or old.unique_key is not null)
                            execute function awa.keep_unique_claim()', guarded);
        execute format('create trigger unique_claim_left after delete on awa.%I
                            for each row when (old.unique_key is not null)
                            execute function awa.keep_unique_claim()', guarded);
        execute format('create trigger unique_claims_truncated before truncate on awa.%I
                            for each statement execute function awa.release_unique_claims()', guarded);
        execute format('alter table awa.%I enable always trigger unique_claim_taken', guarded);
        execute format('alter table awa.%I enable always trigger unique_claim_changed', guarded);
        execute format('alter table awa.%I enable always trigger unique_claim_left', guarded);
        execute format('alter table awa.%I enable always trigger unique_claims_truncated', guarded);
    end loop;
end
$claims$;
