-- Who may use this schema, in bundles: producer, worker, operator, viewer (awa.access_rules says what is in them).
-- PostgreSQL's own grants are all that is kept. Run by the owner of the schema; no role is ever created.

-- Give a role a bundle. Answers whether it did not have it.
--   p_role    a role of this server, by its bare name; p_bundle: producer, worker, operator or viewer
-- The owner of the schema has every right already: nothing is done for it. A bundle that the role has is put in order.
-- Fails with 42704 for a role that is not there, with 22023 for a bundle that is not.
-- Locks as migrations do, so that two changes of rights come one after the other.
create or replace function awa.grant_access(p_role name, p_bundle text) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    held text[];
begin
    if not awa.check_access(p_role, p_bundle) then
        return false;
    end if;
    held := array(select granted.bundle from awa.granted_access as granted where granted.role = p_role);
    perform awa.set_access(p_role, array_append(array_remove(held, p_bundle), p_bundle));
    return p_bundle <> all (held);
end
$$;

-- Take a bundle from a role. Answers whether it had it.
--   p_role, p_bundle  as for awa.grant_access
-- What another bundle of the role allows stays. With its last bundle a role loses USAGE of the schema.
-- Fails and locks as awa.grant_access does.
create or replace function awa.revoke_access(p_role name, p_bundle text) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    held text[];
begin
    if not awa.check_access(p_role, p_bundle) then
        return false;
    end if;
    held := array(select granted.bundle from awa.granted_access as granted where granted.role = p_role);
    if p_bundle <> all (held) then
        return false;
    end if;
    perform awa.set_access(p_role, array_remove(held, p_bundle));
    return true;
end
$$;

-- Refuse a bundle or a role that is not there, and wait for whoever else changes rights. Answers false for the owner.
--   p_role, p_bundle  as for awa.grant_access
-- Locks: the advisory lock of migrations, until the transaction ends.
create or replace function awa.check_access(p_role name, p_bundle text) returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if p_bundle is null or p_bundle not in ('producer', 'worker', 'operator', 'viewer') then
        raise exception 'bundle is %; it must be producer, worker, operator or viewer', coalesce(to_json(p_bundle)::text, 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    -- "public" is no role, whatever quotes it is in: everybody would get the bundle.
    if p_role is null or not exists (select from pg_roles as known where known.rolname = p_role) then
        raise exception 'role % does not exist', coalesce(to_json(p_role)::text, 'null')
            using errcode = 'undefined_object';
    end if;
    perform pg_advisory_xact_lock(7309453123018);
    return p_role <> (select pg_get_userbyid(spaces.nspowner) from pg_namespace as spaces where spaces.nspname = 'awa');
end
$$;

-- Let a role have exactly these bundles in this schema.
--   p_role, p_bundles  the role; the bundles that it is to have
-- Only what differs is changed: functions that are as they should be are not touched, since workers use them meanwhile.
create or replace function awa.set_access(p_role name, p_bundles text[]) returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    this_role constant oid := (select known.oid from pg_roles as known where known.rolname = p_role);
    grants    text;
    revokes   text;
    rule      record;
begin
    execute format('revoke select on awa.bundles from %I', p_role);
    if cardinality(p_bundles) > 0 then
        execute format('grant usage on schema awa to %I', p_role);
        execute format('grant select (%s) on awa.bundles to %I', array_to_string(p_bundles, ', '), p_role);
    else
        execute format('revoke usage on schema awa from %I', p_role);
    end if;
    select string_agg(wanted.signature, ', ') filter (where wanted.may and not wanted.has),
           string_agg(wanted.signature, ', ') filter (where wanted.has and not wanted.may)
      into grants, revokes
      from (select routine.oid::regprocedure::text as signature,
                   exists (select from awa.access_rules() as allowed
                            where allowed.object = routine.proname
                              and allowed.privilege = 'execute'
                              and allowed.bundles && p_bundles) as may,
                   exists (select from aclexplode(routine.proacl) as granted
                            where granted.grantee = this_role and granted.privilege_type = 'EXECUTE') as has
              from pg_proc as routine
             where routine.pronamespace = 'awa'::regnamespace) as wanted;
    if grants is not null then
        execute format('grant execute on function %s to %I', grants, p_role);
    end if;
    if revokes is not null then
        execute format('revoke execute on function %s from %I', revokes, p_role);
    end if;
    -- What is granted on the whole goes first, since to revoke that takes away what is granted on its columns.
    for rule in
        select allowed.object, allowed.privilege, allowed.bundles && p_bundles as may
          from awa.access_rules() as allowed
         where allowed.privilege <> 'execute'
           and to_regclass(format('awa.%I', allowed.object)) is not null
         order by allowed.privilege like '%(%'
    loop
        execute format(case when rule.may then 'grant %s on awa.%I to %I' else 'revoke %s on awa.%I from %I' end,
                       rule.privilege, rule.object, p_role);
    end loop;
end
$$;

-- Put the rights of PUBLIC and of every role that has a bundle in order: the last step of each installation of functions.
-- PUBLIC gets nothing, whatever default privileges the owner has; roles get what is new in their bundles.
-- Locks as awa.grant_access does. What is in order already is not touched.
create or replace function awa.apply_access() returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    open   record;
    holder record;
begin
    perform pg_advisory_xact_lock(7309453123018);
    for open in
        select format('revoke all on function %s from public', routine.oid::regprocedure) as statement
          from pg_proc as routine
         where routine.pronamespace = 'awa'::regnamespace
           and exists (select from aclexplode(coalesce(routine.proacl, acldefault('f', routine.proowner))) as granted
                        where granted.grantee = 0)
         union all
        select format('revoke all on %s %s from public',
                      case relation.relkind when 'S' then 'sequence' else 'table' end, relation.oid::regclass)
          from pg_class as relation
         where relation.relnamespace = 'awa'::regnamespace
           and relation.relkind in ('r', 'p', 'v', 'S')
           and exists (select from aclexplode(relation.relacl) as granted where granted.grantee = 0)
         union all
        select format('revoke all on type %s from public', enum.oid::regtype)
          from pg_type as enum
         where enum.typnamespace = 'awa'::regnamespace
           and enum.typtype = 'e'
           and exists (select from aclexplode(coalesce(enum.typacl, acldefault('T', enum.typowner))) as granted
                        where granted.grantee = 0)
    loop
        execute open.statement;
    end loop;
    for holder in
        select granted.role, array_agg(granted.bundle::text) as bundles from awa.granted_access as granted group by granted.role
    loop
        perform awa.set_access(holder.role, holder.bundles);
    end loop;
end
$$;
