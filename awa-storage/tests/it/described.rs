//! Everything in the schema says what it is for, and the calls of an older worker go on meaning what they meant.

use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::scene::text;

/// Columns whose name says it all, wherever they are.
const OBVIOUS: &str =
    "('id', 'name', 'queue', 'host', 'version', 'role', 'started_at', 'created_at', 'claimed_at', 'elected_at',
    'renewed_at', 'applied_at', 'priority')";

async fn undescribed(pool: &PgPool, what: &str, query: &str) {
    let found = format!("select string_agg(name, ', ' order by name) from ({query}) as object (name)");
    assert_eq!(text(pool, &found).await, "", "{what} without a comment");
}

#[tokio::test]
async fn every_object_says_what_it_is_for() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let ours = "= 'awa'::regnamespace";
    let check = async |what, query: String| undescribed(&pool, what, &query).await;
    check(
        "schema",
        "select nspname from pg_namespace where nspname = 'awa' and obj_description(oid, 'pg_namespace') is null"
            .into(),
    )
    .await;
    check(
        "relation",
        format!(
            "select relname from pg_class where relnamespace {ours} and relkind in ('r', 'p', 'v', 'S')
                and obj_description(oid, 'pg_class') is null"
        ),
    )
    .await;
    check(
        "column",
        format!(
            "select relname || '.' || attname from pg_class join pg_attribute on attrelid = pg_class.oid
              where relnamespace {ours} and relkind in ('r', 'p', 'v') and not relispartition and attnum > 0
                and not attisdropped and attname not in {OBVIOUS} and col_description(attrelid, attnum) is null"
        ),
    )
    .await;
    check(
        "function",
        format!("select proname from pg_proc where pronamespace {ours} and obj_description(oid, 'pg_proc') is null"),
    )
    .await;
    check(
        "type",
        format!(
            "select typname from pg_type where typnamespace {ours} and typtype in ('e', 'd', 'r')
                and obj_description(oid, 'pg_type') is null"
        ),
    )
    .await;
    check(
        "trigger",
        format!(
            "select relname || '.' || tgname from pg_trigger join pg_class on pg_class.oid = tgrelid
              where relnamespace {ours} and not tgisinternal and tgparentid = 0
                and obj_description(pg_trigger.oid, 'pg_trigger') is null"
        ),
    )
    .await;
}

/// Written down by hand, and only ever changed by hand: what workers and producers of this release call.
const CALLS: &str = include_str!("calls.txt");

/// How the calls of the two bundles look now.
const NOW: &str = "select string_agg(call, E'\\n' order by call collate \"C\") from (
    select distinct format('%s(%s) -> %s', routine.proname, pg_get_function_identity_arguments(routine.oid),
                           pg_get_function_result(routine.oid))
      from pg_proc as routine
      join awa.access_rules() as rule on rule.object = routine.proname and rule.privilege = 'execute'
     where routine.pronamespace = 'awa'::regnamespace and rule.bundles && '{worker,producer}') as present (call)";

/// A fleet is updated one process at a time: a function that a running worker calls keeps its name, its parameters, their
/// names and types, and the columns of its answer. What is new is added to the file; a line goes when no supported release
/// calls it any more.
#[tokio::test]
async fn calls_of_workers_and_producers_are_those_written_down() {
    let database = TestDatabase::new().await;
    let now = text(&database.pool(), NOW).await;
    let (written, now): (Vec<&str>, Vec<&str>) =
        (CALLS.lines().filter(|line| !line.starts_with('#')).collect(), now.lines().collect());
    for call in &written {
        assert!(now.contains(call), "a worker of an older release calls this, and it is no longer there: {call}");
    }
    for call in &now {
        assert!(
            written.contains(call),
            "add this to awa-storage/tests/it/calls.txt, and never change it again: {call}"
        );
    }
}
