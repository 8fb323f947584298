//! Steps: taken once, whatever happens to the attempts around them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use awa_worker::{HandlerExt as _, JobContext, JobError, ProgressError, RetryPolicy, StepError};
use serde_json::{Value, json};

use crate::leases::rescue_all;
use crate::support::{Gate, Probe, Rig, Row, drain, events, probe, soon};

/// How often something was done.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn one_more(&self) -> usize {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// Runs one job with this handler until its state is `state`, retrying at once.
async fn run<Running>(state: &str, handler: impl Fn(JobContext) -> Running + Send + Sync + 'static) -> Row
where
    Running: Future<Output = Result<Value, JobError>> + Send + 'static,
{
    let rig = Rig::new().await;
    let handler = move |_: Probe, context: JobContext| handler(context);
    let client = rig.client().register(handler.with_retry(RetryPolicy::fixed(Duration::ZERO))).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    if state == "completed" {
        rig.state(id, "retryable").await;
        rig.promote().await;
    }
    let row = rig.state(id, state).await;
    drain(&running).await;
    row
}

#[tokio::test]
async fn step_that_was_taken_is_not_taken_again_by_a_later_attempt() {
    let (first, second) = (Count::default(), Count::default());
    let counts = (first.clone(), second.clone());
    let row = run("completed", move |context| {
        let (first, second) = counts.clone();
        async move {
            let number: usize = context.step("first", async || Ok::<_, JobError>(first.one_more())).await?;
            let again: usize = context.step("first", async || Ok::<_, JobError>(first.one_more())).await?;
            let fails = async || if second.one_more() == 1 { Err("not yet") } else { Ok("at last".to_owned()) };
            let text: String = context.step("second", fails).await?;
            Ok(json!([number, again, text]))
        }
    })
    .await;
    assert_eq!(row.result, Some(json!([1, 1, "at last"])));
    assert_eq!((first.get(), second.get(), row.progress), (1, 2, None));
}

/// The handler's future is spawned: steps are `Send`, whatever they borrow.
#[tokio::test]
async fn steps_of_different_names_run_at_once_and_of_the_same_name_once() {
    let count = Count::default();
    let counted = count.clone();
    let row = run("completed", move |context| {
        let count = counted.clone();
        async move {
            let met = Arc::new(tokio::sync::Barrier::new(2));
            let meet = async |name: &'static str| {
                let met = Arc::clone(&met);
                let step = async move || {
                    met.wait().await;
                    Ok::<_, JobError>(name.to_owned())
                };
                context.step(name, step).await
            };
            let (left, right) = tokio::try_join!(meet("left"), meet("right"))?;
            let spawned: Vec<_> = (0..8)
                .map(|_| {
                    let (context, count) = (context.clone(), count.clone());
                    tokio::spawn(async move {
                        let slow = async || {
                            tokio::task::yield_now().await;
                            Ok::<_, JobError>(count.one_more())
                        };
                        context.step("same", slow).await
                    })
                })
                .collect();
            for one in spawned {
                assert_eq!(one.await??, 1);
            }
            if context.attempt() == 1 {
                Err("once more")?;
            }
            Ok(json!([left, right]))
        }
    })
    .await;
    assert_eq!((row.result, count.get()), (Some(json!(["left", "right"])), 1));
}

#[tokio::test]
async fn step_that_panics_or_is_dropped_lets_the_next_one_try() {
    let row = run("retryable", |context| async move {
        let other = context.clone();
        let panicked = tokio::spawn(async move {
            other.step("a", async || -> Result<i64, JobError> { panic!("inside") }).await.map(|_: i64| ())
        });
        assert!(panicked.await.is_err());
        let never = context.step("a", async || std::future::pending::<Result<i64, JobError>>().await);
        tokio::select! {
            biased;
            _ = never => unreachable!(),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(context.step("a", async || Ok::<_, JobError>(7)).await?, 7);
        Err("look")?
    })
    .await;
    assert_eq!(row.progress, Some(json!({ "metadata": { "$steps": { "a": 7 } } })));
}

#[tokio::test]
async fn result_is_stored_when_the_step_returns() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            context.set_checkpoint("mine", &1)?;
            context.step("charge", async || Ok::<_, JobError>(json!({ "receipt": 5 }))).await?;
            tell.send(()).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_secs(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("the step", told.recv()).await.unwrap();
    let stored = json!({ "metadata": { "mine": 1, "$steps": { "charge": { "receipt": 5 } } } });
    assert_eq!(rig.row(id).await.progress, Some(stored));
    gate.open();
    drain(&running).await;
}

#[tokio::test]
async fn step_of_a_lost_lease_stops_the_handler_and_stores_nothing() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let pool = rig.pool.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, pool) = (tell.clone(), pool.clone());
        async move {
            let taken_away = async || Ok::<_, JobError>(rescue_all(&pool, Duration::ZERO).await);
            let error = context.step("a", taken_away).await.expect_err("lost");
            let lost = matches!(error.downcast_ref(), Some(awa_worker::Error::LeaseLost));
            tell.send(lost && context.is_cancelled()).unwrap();
            Err::<Value, JobError>(error)
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_secs(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    assert_eq!(soon("the step", told.recv()).await, Some(true));
    drain(&running).await;
    let row = rig.row(id).await;
    assert_eq!((row.state.as_str(), &row.progress), ("retryable", &None));
    assert!(row.last_error().starts_with("rescued"), "{}", row.last_error());
}

#[tokio::test]
async fn what_cannot_be_a_step_fails_the_job_for_good() {
    let unreadable = run("failed", |context| async move {
        context.step("a", async || Ok::<_, JobError>("text".to_owned())).await?;
        let error = context.step("a", async || Ok::<_, JobError>(1)).await.expect_err("a text is no number");
        assert!(matches!(error.downcast_ref(), Some(StepError::Unreadable { step, .. }) if step == "a"));
        Err(error)
    })
    .await;
    let expected = "what step \"a\" has left is not of the type asked for: invalid type: string \"text\", expected i32";
    assert_eq!(unreadable.last_error(), expected);

    let large = run("failed", |context| async move {
        let error = context.step("a", async || Ok::<_, JobError>("x".repeat(70_000))).await.expect_err("too large");
        let unkept = matches!(error.downcast_ref(), Some(StepError::Unkept { source: ProgressError::Json(_), .. }));
        assert!(unkept, "{error:?}");
        Err(error)
    })
    .await;
    let expected =
        "the result of step \"a\" cannot be kept: progress has 70002 bytes as JSON; at most 65536 are allowed";
    assert_eq!((large.last_error(), large.progress.as_ref()), (expected, None));

    let nameless = run("failed", |context| async move {
        context.step("", async || -> Result<i64, JobError> { unreachable!("its name is looked at first") }).await?;
        Ok(Value::Null)
    })
    .await;
    assert_eq!(nameless.last_error(), "step is empty; it must have 1 to 128 bytes");
}

#[tokio::test]
async fn keys_that_begin_with_a_dollar_sign_are_not_the_handlers() {
    let row = run("retryable", |context| async move {
        context.step("a", async || Ok::<_, JobError>(1)).await?;
        for refused in [
            context.set_checkpoint("$steps", &json!({})),
            context.progress().update_metadata(json!({ "b": 1, "$mine": 2 })),
        ] {
            let error = refused.expect_err("reserved").to_string();
            assert!(error.ends_with("is reserved, as all are that begin with `$`"), "{error}");
        }
        Err("look")?
    })
    .await;
    assert_eq!(row.progress, Some(json!({ "metadata": { "$steps": { "a": 1 } } })));
}
