-- Why: remember which role has which bundle of rights, so that functions that come later are granted to it as well.
-- Nothing is stored beside PostgreSQL's own grants: who may read the column of a bundle has the bundle. So a role that is
-- dropped, renamed or restored elsewhere takes its bundles along, and a new role of an old name has none.
-- Previous binary: does not look here.
-- Locks: none that others could hold; every object is new.

create table awa.bundles (
    producer boolean,
    worker   boolean,
    operator boolean,
    viewer   boolean,
    constraint empty check (false)
);

comment on table awa.bundles is
    'Holds no rows: the right to read a column marks the roles that have the bundle of its name. See awa.grant_access.';
comment on column awa.bundles.producer is 'Enqueues jobs.';
comment on column awa.bundles.worker is 'Runs jobs and does maintenance: what a worker process needs.';
comment on column awa.bundles.operator is 'Reads, cancels, retries and edits jobs; pauses queues; sets the ring.';
comment on column awa.bundles.viewer is 'Reads jobs and the state of the ring.';

create view awa.granted_access as
select grantee.rolname as role, marker.attname as bundle
  from pg_attribute as marker
 cross join lateral aclexplode(marker.attacl) as granted
  join pg_roles as grantee on grantee.oid = granted.grantee
 where marker.attrelid = 'awa.bundles'::regclass
   and marker.attnum > 0
   and granted.privilege_type = 'SELECT';

comment on view awa.granted_access is 'Which role has which bundle. Change it by awa.grant_access and awa.revoke_access.';
