//! PROC-01: handlers that panic, in every way they can.

use std::fmt;
use std::panic::panic_any;
use std::sync::Arc;

use awa_worker::{JobContext, JobError, NewJob, QueueConfig};
use serde_json::Value;
use tokio::sync::Barrier;

use crate::support::{Other, Probe, Rig, drain, probe, until};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[derive(Debug)]
struct Hostile;

impl fmt::Display for Hostile {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no text for you");
    }
}

impl std::error::Error for Hostile {}

#[derive(Debug)]
struct DropsBadly;

impl fmt::Display for DropsBadly {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("drops badly")
    }
}

impl std::error::Error for DropsBadly {}

impl Drop for DropsBadly {
    fn drop(&mut self) {
        panic!("in the drop of the error");
    }
}

async fn handler(job: Probe, context: JobContext) -> Result<Value, JobError> {
    match job.name.as_str() {
        "text" => panic!("a text"),
        "value" => panic_any(7_u8),
        "bomb as payload" => panic_any(Bomb),
        "in drop" => drop(Bomb),
        "after await" => {
            tokio::task::yield_now().await;
            panic!("late")
        }
        "display" => return Err(Hostile.into()),
        "drop of the error" => return Err(DropsBadly.into()),
        "in progress" => context.progress().set(1, FromPanic)?,
        _ => {}
    }
    Ok(Value::Null)
}

struct FromPanic;

impl From<FromPanic> for String {
    fn from(_: FromPanic) -> Self {
        panic!("no message for you")
    }
}

#[tokio::test]
async fn every_panic_is_a_failed_attempt_with_a_message() {
    let rig = Rig::new().await;
    let client = rig.client().queue("default", QueueConfig::new().max_workers(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    for (name, expected) in [
        ("text", "a text"),
        ("value", "a value that is not a text"),
        ("bomb as payload", "a value that is not a text"),
        ("in drop", "dropped"),
        ("after await", "late"),
        ("display", "no text for you"),
        ("drop of the error", "in the drop of the error"),
        ("in progress", "no message for you"),
    ] {
        let id = rig.enqueue(probe(name)).await;
        let row = rig.state(id, "retryable").await;
        assert!(row.last_error().contains(expected), "{name}: {}", row.last_error());
        assert_eq!(row.attempt, 1, "{name}");
    }
    let place = rig.enqueue(probe("text")).await;
    assert!(rig.state(place, "retryable").await.last_error().contains("panics.rs:"));
    // The only slot is free again.
    let id = rig.enqueue(probe("calm")).await;
    rig.state(id, "completed").await;
    drain(&running).await;
}

#[tokio::test]
async fn a_thousand_panics_cost_no_capacity() {
    let rig = Rig::new().await;
    let all_in = Arc::new(Barrier::new(10));
    let handler = move |job: Other| {
        let all_in = Arc::clone(&all_in);
        async move {
            assert!(job.number < 0, "number {}", job.number);
            if job.number < -1 {
                all_in.wait().await;
            }
            Ok::<_, JobError>(())
        }
    };
    let client = rig.client().queue("default", QueueConfig::new().max_workers(10)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let jobs = (0..1000).map(|number| NewJob::new(&Other { number }).max_attempts(1));
    awa_worker::enqueue_many(&rig.pool, jobs).await.unwrap();
    let last = rig.enqueue(NewJob::new(&Other { number: -1 }).priority(4)).await;
    rig.state(last, "completed").await;
    // Full concurrency: each of them returns only when ten run at once.
    awa_worker::enqueue_many(&rig.pool, (0..10).map(|_| Other { number: -2 })).await.unwrap();
    until("ten at once", async || rig.count("select count(*) from awa.jobs where state = 'completed'").await == 11)
        .await;
    drain(&running).await;
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'failed'").await, 1000);
}
