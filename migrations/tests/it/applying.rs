//! What a migrated database has, by the runner or by psql, under an owner without further rights.

use awa_migrations::{FunctionsStatus, Options, Schema, migrate, migrate_with, script, status};
use sqlx::Row as _;

use crate::scratch::{Scratch, ask, extended, on, pool, probe, snapshot};

#[tokio::test]
async fn empty_database_is_taken_to_the_newest_version() {
    let scratch = Scratch::new().await;
    let report = migrate(&scratch.pool(1)).await.expect("an empty database");
    assert_eq!((report.from, report.to), (0, Schema::embedded().version()));
    assert!(report.functions_installed);
    assert!(status(&scratch.pool(1)).await.expect("its own history").is_current());
}

#[tokio::test]
async fn second_run_changes_nothing() {
    let scratch = Scratch::new().await;
    migrate(&scratch.pool(1)).await.expect("an empty database");
    let before = snapshot(&scratch).await;
    let report = migrate(&scratch.pool(1)).await.expect("a current database");
    assert_eq!((report.applied.len(), report.functions_installed), (0, false));
    assert_eq!(snapshot(&scratch).await, before);
}

#[tokio::test]
async fn printed_script_leaves_what_the_runner_leaves() {
    let scratch = Scratch::new().await;
    on(&mut scratch.connect().await, &script()).await;
    let report = migrate(&scratch.pool(1)).await.expect("a database that the script made");
    assert_eq!((report.applied.len(), report.functions_installed), (0, false));
}

#[tokio::test]
async fn script_run_twice_stops_before_it_does_anything() {
    let scratch = Scratch::new().await;
    on(&mut scratch.connect().await, &script()).await;
    let before = snapshot(&scratch).await;
    let again = sqlx::raw_sql(sqlx::AssertSqlSafe(script())).execute(&mut scratch.connect().await).await;
    assert!(again.is_err_and(|error| error.to_string().contains("schema_migrations_pkey")));
    assert_eq!(snapshot(&scratch).await, before);
}

#[tokio::test]
async fn failed_step_is_named_and_takes_everything_with_it() {
    let scratch = Scratch::new().await;
    let schema = extended(&["create table awa.half (id bigint);", "select 1 / 0;"]);
    let before = snapshot(&scratch).await;
    let failure = migrate_with(&scratch.pool(1), schema, Options::default()).await.expect_err("it divides by zero");
    assert!(failure.to_string().contains("_added failed"), "{failure}");
    assert_eq!(snapshot(&scratch).await, before);
}

#[tokio::test]
async fn changed_function_is_installed_again_and_an_older_release_does_not_put_its_own_back() {
    let scratch = Scratch::new().await;
    let old = "create or replace function awa.probe() returns integer language sql return 1;";
    let new = "create or replace function awa.probe() returns integer language sql return 2;";
    let mut answers = Vec::new();
    for (sql, release) in [(old, "1.9.0"), (new, "1.10.0"), (old, "1.9.0")] {
        let report =
            migrate_with(&scratch.pool(1), probe(sql, release), Options::default()).await.expect("no conflict");
        let answer: i32 = ask(&mut scratch.connect().await, "select awa.probe()").await.get(0);
        answers.push((report.functions_installed, answer));
    }
    assert_eq!(answers, [(true, 1), (true, 2), (false, 2)]);
}

#[tokio::test]
async fn owner_of_the_schema_alone_can_migrate() {
    let scratch = Scratch::new().await;
    let role = format!("{}_owner", scratch.name());
    let mut admin = scratch.connect().await;
    // It may not even create schemas: an administrator made an empty one for it.
    on(&mut admin, &format!("create role {role} login password 'plain'; create schema awa authorization {role}")).await;
    let plain = pool(scratch.options().username(&role).password("plain"), 1);
    let outcome = migrate(&plain).await;
    plain.close().await;
    on(&mut admin, &format!("drop schema awa cascade; drop role {role}")).await;
    outcome.expect("no superuser is needed");
}

#[tokio::test]
async fn settings_of_the_service_do_not_get_in_the_way() {
    let scratch = Scratch::new().await;
    let role = format!("{}_owner", scratch.name());
    let mut admin = scratch.connect().await;
    on(&mut admin, &format!("create role {role} superuser login password 'plain'")).await;
    on(&mut admin, &format!("alter role {role} set search_path = nowhere")).await;
    on(&mut admin, &format!("alter role {role} set statement_timeout = 1000")).await;
    on(&mut admin, &format!("alter role {role} set check_function_bodies = off")).await;
    let odd = pool(scratch.options().username(&role).password("plain"), 1);
    let schema = extended(&["select pg_sleep(1.2);"]);
    let outcome = migrate_with(&odd, schema, Options::default()).await;
    odd.close().await;
    on(&mut admin, &format!("drop owned by {role} cascade; drop role {role}")).await;
    outcome.expect("search_path and timeouts are set for the transaction");
}

#[tokio::test]
async fn status_of_an_empty_database_lists_what_is_pending_and_writes_nothing() {
    let scratch = Scratch::new().await;
    let before = snapshot(&scratch).await;
    let status = status(&scratch.pool(1)).await.expect("an empty database");
    assert_eq!((status.found, status.pending.len()), (0, Schema::embedded().migrations().len()));
    assert_eq!(status.functions, FunctionsStatus::Pending);
    assert_eq!(snapshot(&scratch).await, before);
}
