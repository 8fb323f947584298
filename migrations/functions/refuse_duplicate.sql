-- What a statement on the view does about a unique key that another job holds: nothing, or AWA02 under the policy error.
--   p_holder  the job that holds it
-- The policy is the setting awa.on_conflict of the session or transaction; skip where it is not set.
create or replace function awa.refuse_duplicate(p_holder bigint) returns void
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if awa.view_policy() = 'error' then
        raise exception 'job % holds the unique key', p_holder
            using errcode = 'AWA02', detail = p_holder::text, schema = 'awa', table = 'job_unique_claims';
    end if;
end
$$;

-- The setting awa.on_conflict: skip (also where it is not set), replace or error. Raises 22023 for anything else.
create or replace function awa.view_policy() returns text
    language plpgsql stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    policy constant text := coalesce(nullif(current_setting('awa.on_conflict', true), ''), 'skip');
begin
    if policy not in ('skip', 'replace', 'error') then
        perform awa.refuse('awa.on_conflict', to_json(policy)::text, 'skip, replace or error');
    end if;
    return policy;
end
$$;
