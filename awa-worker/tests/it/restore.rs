//! A logical backup of a database in use, put back somewhere else: everything that must run, runs.

use std::process::{Command, Output};
use std::time::Duration;

use awa_storage::testing::{TestDatabase, TestRole};
use awa_worker::{Inserted, JobError, NewJob, QueueConfig, Unique};
use serde_json::{Value, json};

use crate::leases::rescue_all;
use crate::support::{Gate, Probe, Rig, drain, probe};

/// Runs a client program of PostgreSQL on a database; nothing where there is none that fits the server.
fn run(program: &str, arguments: &[&str], database: &TestDatabase) -> Option<Output> {
    // Without what only sqlx understands.
    let url = database.url().split('?').next().expect("a URL").to_owned();
    let output = Command::new(program).args(arguments).arg(url).output().ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("server version mismatch") {
        eprintln!("not tried: {program} is older than the server");
        return None;
    }
    assert!(output.status.success(), "{program}: {said}");
    Some(output)
}

const LATER: &str = "later";

#[tokio::test]
async fn restored_dump_runs_everything_that_must_run_once_its_marks_are_reset() {
    let rig = Rig::new().await;
    let role = TestRole::new(&rig.database).await;
    role.grant(&["worker", "viewer"]).await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let gate = passed.clone();
        async move {
            match job.name.as_str() {
                "running" => gate.passed().await,
                "failing" => Err("not here")?,
                _ => {}
            }
            Ok::<Value, JobError>(json!(job.name))
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let completed = rig.enqueue(probe("completed")).await;
    let failing = rig.enqueue(probe("failing")).await;
    let held = rig.enqueue(probe("running")).await;
    rig.state(completed, "completed").await;
    rig.state(failing, "retryable").await;
    rig.state(held, "running").await;
    // A queue that nobody serves yet.
    let unique = || NewJob::new(&probe("unique")).queue(LATER).unique(Unique::until_finished());
    let waiting = rig.enqueue(NewJob::new(&probe("waiting")).queue(LATER)).await;
    let kept = rig.enqueue(unique()).await;
    let scheduled = rig.enqueue(NewJob::new(&probe("scheduled")).run_in(Duration::from_secs(3600))).await;

    let file = std::env::temp_dir().join(format!("{}.sql", rig.database.name()));
    let path = file.to_str().expect("UTF-8");
    let dumped = run("pg_dump", &["--file", path], &rig.database);
    gate.open();
    drain(&running).await;
    if dumped.is_none() {
        return;
    }
    let database = TestDatabase::empty().await;
    let restored = run("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", path], &database);
    std::fs::remove_file(&file).expect("pg_dump has made it");
    if restored.is_none() {
        return;
    }
    judge(Rig { pool: database.pool(), database }, &[waiting, kept, scheduled, held, failing], completed, unique())
        .await;
}

async fn judge(rig: Rig, unfinished: &[i64], completed: i64, unique: NewJob<Probe>) {
    awa_worker::migrate(&rig.pool).await.expect("the history came along");
    rig.execute("select awa.reset_marks()").await;
    assert_eq!(
        rig.count("select count(*) from awa.granted_access where bundle in ('worker', 'viewer')").await,
        2,
        "rights came along"
    );
    let duplicate = awa_worker::enqueue(&rig.pool, unique).await.unwrap();
    assert!(matches!(duplicate, Inserted::Duplicate(_)), "its key is still held: {duplicate:?}");
    assert_eq!(rescue_all(&rig.pool, Duration::ZERO).await, 1, "the attempt that ran when the dump was made");
    rig.promote().await;
    let handler = async |job: Probe| Ok::<Value, JobError>(json!(format!("{} again", job.name)));
    let client = rig.client().queue("default", QueueConfig::new()).queue(LATER, QueueConfig::new()).register(handler);
    let running = client.build().unwrap().start().await.unwrap();
    let fresh = rig.enqueue(probe("fresh")).await;
    for id in unfinished.iter().chain([&fresh]) {
        let row = rig.state(*id, "completed").await;
        assert!(
            row.result.as_ref().and_then(Value::as_str).is_some_and(|result| result.ends_with(" again")),
            "{row:?}"
        );
        assert!(*id <= fresh, "ids go on behind those that were restored");
    }
    assert_eq!(rig.row(completed).await.result, Some(json!("completed")), "what was done is not done again");
    drain(&running).await;
}
