//! A worker under a role that has nothing but its bundles, on a schema whose owner is no superuser.

use std::time::Duration;

use awa_storage::testing::{TestDatabase, TestRole};
use awa_worker::{Client, HandlerExt as _, JobContext, JobError, NewJob, Outcome, RetryPolicy};
use serde_json::{Value, json};

use crate::support::{Other, Probe, Rig, drain, probe, until};

/// Waits on the listening connection: see awa.wake.
const ASLEEP: &str = "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1096237385
    and mode = 'ExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())";

/// From the check of the schema to the last outcome: claims, heartbeats, progress, every way to end, promotion by a worker
/// that leads, wake-ups, and a job that a handler enqueues.
#[tokio::test]
async fn role_with_the_bundles_of_worker_and_producer_runs_a_whole_client() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let role = TestRole::new(&database).await;
    role.grant(&["worker", "producer"]).await;
    let pool = role.pool();
    let rig = Rig { pool: database.pool(), database };

    let own = pool.clone();
    let handler = move |job: Probe, context: JobContext| {
        let own = own.clone();
        async move {
            context.progress().set(50, "half")?;
            context.progress().flush().await?;
            match (job.name.as_str(), context.attempt(), context.snoozes()) {
                ("retried", 1, _) => Err("not yet")?,
                ("snoozed", _, 0) => return Ok(Outcome::snooze(Duration::from_millis(1))),
                ("cancelled", ..) => return Ok(Outcome::cancel("as asked")),
                ("failed", ..) => Err(JobError::fatal("for good"))?,
                _ => {}
            }
            let _ = awa_worker::enqueue(&own, Other { number: 1 }).await?;
            Ok::<_, JobError>(Outcome::complete_with(json!(job.name)))
        }
    };
    let client = Client::builder(pool.clone())
        .heartbeat_interval(Duration::from_millis(100))
        .stale_after(Duration::from_secs(5))
        .register(handler.with_retry(RetryPolicy::fixed(Duration::ZERO)))
        .register(async |_: Other| Ok::<_, JobError>(()))
        .build()
        .unwrap();
    let running = client.start().await.expect("the schema can be checked and the process registered");
    until("sleep", async || rig.count(ASLEEP).await == 1).await;

    let mut ids = Vec::new();
    for (name, state) in [
        ("plain", "completed"),
        ("retried", "completed"),
        ("snoozed", "completed"),
        ("cancelled", "cancelled"),
        ("failed", "failed"),
    ] {
        let inserted = awa_worker::enqueue(&pool, probe(name)).await.expect("enqueued by the role");
        let awa_worker::Inserted::New(id) = inserted else { panic!("{inserted:?}") };
        ids.push((id.get(), state));
    }
    let later = NewJob::new(&probe("deferred")).run_in(Duration::from_millis(1));
    let inserted = awa_worker::enqueue_many(&pool, [later]).await.expect("enqueued by the role");
    ids.push((inserted[0].id().get(), "completed"));
    for (id, state) in ids {
        rig.state(id, state).await;
    }
    until("the jobs that handlers enqueued", async || {
        rig.count("select count(*) from awa.jobs where kind = 'other' and state = 'completed'").await == 4
    })
    .await;
    drain(&running).await;
    assert_eq!(rig.count("select count(*) from awa.workers").await, 0, "it takes itself off the list");
}

/// MIGR-07: whoever starts first is told which version is there and which is needed, and nothing is written.
#[tokio::test]
async fn worker_that_starts_on_another_schema_says_both_versions_and_writes_nothing() {
    let database = TestDatabase::empty().await;
    let rig = Rig { pool: database.pool(), database };
    let client = rig.client().register(async |_: Probe| Ok::<_, JobError>(Value::Null)).build().unwrap();
    let refusal = async || {
        let error = client.start().await.map(drop).expect_err("not this schema");
        format!("{:#}", chain(&error))
    };
    let empty = refusal().await;
    assert!(empty.contains("version 0") && empty.contains("awa migrate"), "{empty}");
    assert_eq!(rig.count("select count(*) from pg_namespace where nspname = 'awa'").await, 0);
    awa_worker::migrate(&rig.pool).await.unwrap();
    let newest = rig.count("select max(version)::bigint from awa.schema_migrations").await;
    rig.execute("delete from awa.schema_migrations where version = (select max(version) from awa.schema_migrations)")
        .await;
    let behind = refusal().await;
    assert!(
        behind.contains(&format!("version {}", newest - 1)) && behind.contains(&format!("version {newest}")),
        "{behind}"
    );
    rig.execute("insert into awa.schema_migrations (version, name, checksum, release)
                 select n, 'x', 'x', '9.0.0' from generate_series((select max(version) from awa.schema_migrations) + 1, 999) n")
        .await;
    let ahead = refusal().await;
    assert!(ahead.contains("version 999") && ahead.contains(&format!("version {newest}")), "{ahead}");
    assert_eq!(rig.count("select count(*) from awa.workers").await, 0);
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
