-- Why: the history of the schema has to exist before the first migration. Safe to run again.
-- A role that may not create schemas can be given an empty schema awa of its own beforehand.
do $bootstrap$
begin
    if to_regnamespace('awa') is null then
        create schema awa;
    end if;
    if to_regclass('awa.schema_migrations') is null then
        create table awa.schema_migrations (
            version    integer     not null primary key check (version >= 0),
            name       text        not null,
            checksum   text        not null,
            release    text        not null,
            applied_at timestamptz not null default now()
        );
        comment on table awa.schema_migrations is
            'What was applied, by which release. Version 0 is the set of functions.';
    end if;
end
$bootstrap$;
