//! STATE-06: a running job that another process cancels, while no slot is free.

use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;

use awa_worker::{CancelReason, Client, ClientBuilder, JobContext, JobError, JobId, Operated};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::support::{Gate, PATIENCE, Probe, Rig, drain, events, probe, soon};
use crate::worker::{client, enqueue, in_state};

/// No heartbeat and no poll comes within any test.
const NEVER: Duration = Duration::from_secs(3600);

const URL: &str = "AWA_TEST_CANCEL_DATABASE_URL";
const JOB: &str = "AWA_TEST_CANCEL_JOB";

/// Has a process of its own cancel the job: this program again, told by the environment what to do.
async fn cancel_elsewhere(rig: &Rig, job: i64) {
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "elsewhere::child_cancels_what_it_is_told_to", "--nocapture"])
        .envs([(URL, rig.database.url()), (JOB, job.to_string())])
        .stdout(Stdio::null())
        .spawn();
    let mut child = child.expect("this program can be started");
    let ended = tokio::task::spawn_blocking(move || child.wait());
    assert!(soon("the other process", ended).await.unwrap().unwrap().success());
}

/// Not a claim of its own: the body of the other process.
#[test]
fn child_cancels_what_it_is_told_to() {
    let (Ok(url), Ok(job)) = (env::var(URL), env::var(JOB)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::builder(PgPool::connect(&url).await.unwrap()).build().unwrap();
        let cancelled = client.cancel(JobId::<()>::new(job.parse().unwrap()), Some("from elsewhere")).await.unwrap();
        assert!(matches!(cancelled, Operated::Applied), "{cancelled:?}");
    });
}

/// All slots busy with handlers that look at the flag, and one more job behind them.
async fn cancelled_elsewhere(rig: &Rig, builder: ClientBuilder) {
    let (tell, mut told) = events();
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            let opened = tokio::spawn(async move { gate.passed().await });
            while !context.is_cancelled() && !opened.is_finished() {
                tokio::task::yield_now().await;
            }
            tell.send((job.name.clone(), context.cancel_reason())).unwrap();
            Ok::<Value, JobError>(json!(job.name))
        }
    };
    let running = builder.register(handler).build().unwrap().start().await.unwrap();
    let jobs = enqueue(&rig.pool, 3).await;
    in_state(&rig.pool, "running", 3).await;
    let next = rig.enqueue(probe("next")).await;
    cancel_elsewhere(rig, jobs[1]).await;
    assert_eq!(soon("word of it", told.recv()).await.unwrap(), ("1".to_owned(), Some(CancelReason::Cancelled)));
    let row = rig.row(jobs[1]).await;
    assert_eq!((row.state.as_str(), row.result.is_none(), row.last_error()), ("cancelled", true, "from elsewhere"));
    // Its slot is free, and nobody else was asked to stop.
    rig.state(next, "running").await;
    gate.open();
    for _ in 0..3 {
        assert_eq!(soon("the others", told.recv()).await.unwrap().1, None);
    }
    in_state(&rig.pool, "completed", 3).await;
    drain(&running).await;
}

// STATE-06: heartbeats would be too late.
#[tokio::test]
async fn handler_hears_at_once_that_another_process_has_cancelled_its_job() {
    let rig = Rig::new().await;
    let deaf = client(&rig.pool, 3).heartbeat_interval(NEVER).stale_after(NEVER * 3);
    cancelled_elsewhere(&rig, deaf.poll_interval(PATIENCE * 2)).await;
}

// STATE-06: nothing but heartbeats could tell.
#[tokio::test]
async fn without_listen_handler_hears_by_heartbeat_that_another_process_has_cancelled_its_job() {
    let rig = Rig::new().await;
    cancelled_elsewhere(&rig, client(&rig.pool, 3).without_listen()).await;
}
