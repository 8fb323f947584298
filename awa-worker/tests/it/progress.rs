//! Progress: stored in three ways, kept as long as the job is not completed.

use std::time::Duration;

use awa_worker::{Error, HandlerExt as _, JobContext, JobError, RetryPolicy};
use serde_json::{Value, json};

use crate::leases::rescue_all;
use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

#[tokio::test]
async fn progress_is_kept_over_a_retry_and_cleared_on_completion() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| {
        let done: Option<u64> = context.checkpoint("done")?;
        if done.is_none() {
            context.progress().set(40, "on the way")?;
            context.set_checkpoint("done", &4)?;
            Err("interrupted")?;
        }
        assert_eq!(context.progress().get().percent(), Some(40));
        Ok::<_, JobError>(json!(done))
    };
    let client = rig.client().register(handler.with_retry(RetryPolicy::fixed(Duration::ZERO))).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let row = rig.state(id, "retryable").await;
    assert_eq!(row.progress, Some(json!({ "percent": 40, "message": "on the way", "metadata": { "done": 4 } })));
    rig.promote().await;
    let row = rig.state(id, "completed").await;
    assert_eq!((row.result, row.progress), (Some(json!(4)), None));
    drain(&running).await;
}

#[tokio::test]
async fn flushed_progress_is_in_the_database_when_flush_returns() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            context.progress().set(10, "first")?;
            // A flush that is dropped half way neither blocks later ones nor overtakes them.
            let dropped = context.progress();
            tokio::select! {
                biased;
                flushed = dropped.flush() => flushed?,
                () = tokio::task::yield_now() => {}
            }
            context.progress().set(20, "second")?;
            context.progress().flush().await?;
            tell.send(()).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_secs(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("flush", told.recv()).await.unwrap();
    assert_eq!(rig.row(id).await.progress, Some(json!({ "percent": 20, "message": "second" })));
    gate.open();
    drain(&running).await;
}

#[tokio::test]
async fn progress_travels_with_the_heartbeat() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let gate = passed.clone();
        async move {
            context.progress().set(120, "clamped")?;
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    until("progress", async || rig.row(id).await.progress.is_some()).await;
    assert_eq!(rig.row(id).await.progress, Some(json!({ "percent": 100, "message": "clamped" })));
    gate.open();
    drain(&running).await;
}

#[tokio::test]
async fn flush_says_that_the_lease_is_lost() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            tell.send(None).unwrap();
            gate.passed().await;
            context.progress().set(50, "too late")?;
            let lost = matches!(context.progress().flush().await, Err(Error::LeaseLost));
            tell.send(Some(lost && context.is_cancelled())).unwrap();
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_secs(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    assert_eq!(soon("start", told.recv()).await, Some(None));
    assert_eq!(rescue_all(&rig.pool, Duration::ZERO).await, 1);
    gate.open();
    assert_eq!(soon("flush", told.recv()).await, Some(Some(true)));
    drain(&running).await;
    assert_eq!(rig.row(id).await.progress, None);
}

#[tokio::test]
async fn refused_progress_changes_nothing() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| {
        context.set_checkpoint("kept", &1)?;
        assert!(context.progress().update_metadata(json!("no object")).is_err());
        assert!(context.set_checkpoint("large", &"x".repeat(70_000)).is_err());
        assert!(context.progress().set(1, "nul\0").is_err());
        Err::<Value, JobError>("look".into())
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    assert_eq!(rig.state(id, "retryable").await.progress, Some(json!({ "metadata": { "kept": 1 } })));
    drain(&running).await;
}
