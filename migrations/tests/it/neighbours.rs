//! A plain owner in a database that others use too: foreign schemas, the service's own migrations, what psql does.

use std::path::PathBuf;

use awa_migrations::{Schema, migrate, script};
use sqlx::Row as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::PgPool;

use crate::scratch::{Scratch, ask, on, pool};

/// Everything about schema awa that a user could notice, without ids: two databases that have it are the same.
const SCHEMA: &str = "select string_agg(object, E'\\n' order by object) from (
    select concat_ws(' ', 'column', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull,
                     col_description(attrelid, attnum), attacl) as object
      from pg_attribute join pg_class on pg_class.oid = attrelid
     where relnamespace = 'awa'::regnamespace and attnum > 0
     union all
    select concat_ws(' ', 'relation', relname, relkind, reloptions, relacl, obj_description(oid, 'pg_class'),
                     case when relkind = 'v' then pg_get_viewdef(oid) end, pg_get_partkeydef(oid))
      from pg_class where relnamespace = 'awa'::regnamespace
     union all
    select concat_ws(' ', 'function', oid::regprocedure, md5(prosrc), proconfig, prosecdef, proacl,
                     obj_description(oid, 'pg_proc'))
      from pg_proc where pronamespace = 'awa'::regnamespace
     union all
    select concat_ws(' ', 'trigger', tgrelid::regclass, tgname, tgenabled, obj_description(oid, 'pg_trigger'))
      from pg_trigger where not tgisinternal
     union all
    select concat_ws(' ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid))
      from pg_constraint where connamespace = 'awa'::regnamespace
     union all
    select concat_ws(' ', 'history', version, name, checksum, release) from awa.schema_migrations) as objects";

async fn schema(scratch: &Scratch) -> String {
    ask(&mut scratch.connect().await, SCHEMA).await.get(0)
}

// NAMES-06
#[tokio::test]
async fn plain_owner_migrates_beside_schemas_that_it_may_not_use() {
    let scratch = Scratch::new().await;
    let role = format!("{}_owner", scratch.name());
    let mut admin = scratch.connect().await;
    // Relations, types and functions named like ours, in schemas that the role cannot look into.
    on(
        &mut admin,
        &format!(
            "create schema locked; revoke all on schema locked, public from public;
             create type locked.job_state as enum ('x'); create table locked.jobs_hot (id int); create table jobs (id int);
             create table locked.schema_migrations (version int); create view locked.jobs as select 1 as one;
             create function locked.claim() returns int language sql as 'select 1';
             create schema \"Foreign \"\"one\"\"\"; create table \"Foreign \"\"one\"\"\".ring (id int);
             create role {role} login password 'plain' nosuperuser nocreatedb nocreaterole;
             grant create on database {} to {role}; revoke temporary on database {} from public",
            scratch.name(),
            scratch.name()
        ),
    )
    .await;
    let plain = pool(scratch.options().username(&role).password("plain"), 1);
    let outcome = async {
        migrate(&plain).await?;
        on(&mut admin, "update awa.schema_migrations set checksum = 'of another build' where version = 0").await;
        migrate(&plain).await
    }
    .await;
    plain.close().await;
    let owner: String = ask(
        &mut admin,
        "select string_agg(distinct pg_get_userbyid(relowner), ' ') from pg_class
                                          where relnamespace = to_regnamespace('awa')",
    )
    .await
    .get(0);
    on(&mut admin, &format!("drop schema awa cascade; drop owned by {role} cascade; drop role {role}")).await;
    assert!(outcome.expect("a plain owner can migrate").functions_installed);
    assert_eq!(owner, role);
}

/// The migrations of a service, which sqlx keeps its own list of.
async fn service() -> Migrator {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("service-migrations");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("1_orders.sql"), "create table orders (id bigint primary key);").expect("a file");
    std::fs::write(directory.join("2_more.sql"), "alter table orders add column note text;").expect("a file");
    Migrator::new(directory).await.expect("migrations")
}

async fn service_history(pool: &PgPool) -> String {
    let mut connection = pool.acquire().await.expect("a connection");
    ask(&mut connection, "select string_agg(row::text, ',' order by version) from public._sqlx_migrations as row")
        .await
        .get(0)
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "the service migrates as it likes")]
async fn service_and_awa_migrate_in_either_order_and_leave_each_other_alone() {
    let service = service().await;
    let mut schemas = Vec::new();
    for awa_first in [true, false] {
        let scratch = Scratch::new().await;
        let pool = scratch.pool(2);
        if awa_first {
            migrate(&pool).await.expect("migrated");
        }
        service.run(&pool).await.expect("the service's own");
        let before = service_history(&pool).await;
        migrate(&pool).await.expect("migrated");
        migrate(&pool).await.expect("nothing to do");
        assert_eq!(service_history(&pool).await, before);
        let ours = schema(&scratch).await;
        service.run(&pool).await.expect("nothing to do");
        assert_eq!(schema(&scratch).await, ours);
        schemas.push(ours);
    }
    assert_eq!(schemas[0], schemas[1]);
}

#[tokio::test]
async fn script_makes_the_schema_that_the_runner_makes() {
    let (by_runner, by_script) = (Scratch::new().await, Scratch::new().await);
    migrate(&by_runner.pool(1)).await.expect("migrated");
    on(&mut by_script.connect().await, &script()).await;
    assert_eq!(schema(&by_script).await, schema(&by_runner).await);
}

/// What psql would not take from a file: its own commands begin with a backslash, its variables with a colon.
#[test]
fn script_has_nothing_that_psql_would_read_otherwise() {
    for migration in Schema::embedded().migrations() {
        check(migration.name, migration.sql);
    }
    for function in Schema::embedded().functions() {
        check(function.name, function.sql);
    }
    fn check(name: &str, sql: &str) {
        for line in sql.lines() {
            let code = line.split("--").next().unwrap_or_default();
            assert!(!code.trim_start().starts_with('\\'), "{name}: a command of psql: {line}");
        }
    }
}

/// With psql itself, where there is one: the script as an operator would run it, then once more.
#[tokio::test]
async fn psql_runs_the_script_to_the_same_schema() {
    let (by_runner, by_psql) = (Scratch::new().await, Scratch::new().await);
    migrate(&by_runner.pool(1)).await.expect("migrated");
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.sql", by_psql.name()));
    std::fs::write(&file, script()).expect("a file");
    // Without what only sqlx understands.
    let url = by_psql.url().split('?').next().expect("a URL").to_owned();
    let psql = || {
        let mut command = std::process::Command::new("psql");
        command.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&file).arg(&url);
        command.output()
    };
    let Ok(first) = psql() else {
        // The npm packages have no psql. The runner's way is compared in any case, see above.
        return;
    };
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert_eq!(schema(&by_psql).await, schema(&by_runner).await);
    assert!(!psql().expect("it was there").status.success(), "a second run stops at once");
    assert_eq!(schema(&by_psql).await, schema(&by_runner).await);
    std::fs::remove_file(file).expect("it was made above");
}
