//! Attempts that take longer than they may.

use std::time::Duration;

use awa_worker::{CancelReason, JobContext, JobError, NewJob, QueueConfig};
use serde_json::{Value, json};

use crate::support::{Gate, Other, Probe, Rig, drain, events, probe, soon};

const SHORT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn handler_is_asked_to_stop_and_the_attempt_counts_as_failed() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            context.cancelled().await;
            tell.send(context.cancel_reason()).unwrap();
            Err::<Value, JobError>("stopped".into())
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(NewJob::new(&probe("a")).timeout(SHORT)).await;
    assert_eq!(soon("cancellation", told.recv()).await, Some(Some(CancelReason::TimedOut)));
    let row = rig.state(id, "retryable").await;
    assert_eq!(row.last_error(), "timed out after 50ms; asked to stop, the handler failed: stopped");
    drain(&running).await;
}

#[tokio::test]
async fn work_that_was_done_in_the_grace_counts() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| {
        context.cancelled().await;
        Ok::<_, JobError>(json!("just in time"))
    };
    let client = rig.client().cancel_grace(Duration::from_secs(30)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(NewJob::new(&probe("a")).timeout(SHORT)).await;
    assert_eq!(rig.state(id, "completed").await.result, Some(json!("just in time")));
    drain(&running).await;
}

// DUP-05
#[tokio::test]
async fn handler_that_ignores_its_timeout_keeps_its_slot_and_loses_its_result() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let gate = passed.clone();
        async move {
            if job.name == "deaf" {
                gate.passed().await;
            }
            Ok::<_, JobError>(json!(job.name))
        }
    };
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(1))
        .queue("aside", QueueConfig::new())
        .register(handler)
        .register(async |_: Other| Ok::<_, JobError>(()))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    let deaf = rig.enqueue(NewJob::new(&probe("deaf")).timeout(SHORT)).await;
    let row = rig.state(deaf, "retryable").await;
    assert_eq!(row.last_error(), "timed out after 50ms");
    // The slot is still taken: a job of another queue that came later is run, and the next of this queue is not.
    let next = rig.enqueue(probe("next")).await;
    let aside = rig.enqueue(NewJob::new(&Other { number: 1 }).queue("aside")).await;
    rig.state(aside, "completed").await;
    assert_eq!(rig.row(next).await.state, "available");
    gate.open();
    rig.state(next, "completed").await;
    assert_eq!(rig.row(deaf).await, row);
    drain(&running).await;
}
