//! Handlers that wait for the outside: what they are told, what is told to whoever answers, and what the slots do meanwhile.

use std::process::Command;
use std::time::Duration;

use awa_storage::callback::{ExpireCursor, expire};
use awa_worker::testing::{self, Ended};
use awa_worker::{
    Answered, CallbackId, CancelReason, Error, HandlerExt as _, JobArgs, JobContext, JobError, JobId, JobState,
    NO_PAYLOAD, Operated, Outcome, QueueConfig, RetryPolicy, callback_resume, limits,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::log;
use crate::readme::example;
use crate::support::{Gate, Probe, Rig, drain, events, probe, soon};

const HOUR: Duration = Duration::from_secs(3600);

/// A handler that opens a callback, tells of it, and waits; resumed, it completes with what it was told.
fn waiting(
    tell: tokio::sync::mpsc::UnboundedSender<CallbackId>,
) -> impl awa_worker::Handler<(Probe, Outcome<Value>, JobError, JobContext), Args = Probe> {
    move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            if let Some(told) = context.callback_payload::<Value>().await? {
                return Ok::<_, JobError>(Outcome::complete_with(told));
            }
            let callback = context.callback(HOUR).await?;
            context.progress().set(50, "waiting")?;
            tell.send(callback.id())?;
            Ok(Outcome::wait_for(callback))
        }
    }
}

#[tokio::test]
async fn handler_parks_its_slot_is_free_and_the_next_attempt_goes_on_with_the_payload() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let one = QueueConfig::new().max_workers(1);
    let client = rig.client().queue("default", one).register(waiting(tell)).build().unwrap();
    let running = client.start().await.unwrap();
    let first = rig.enqueue(probe("a")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    let row = rig.state(first, "waiting_external").await;
    assert_eq!(row.progress, Some(json!({ "percent": 50, "message": "waiting" })));
    // The only slot is free while the first job waits.
    let second = rig.enqueue(probe("b")).await;
    let other = soon("a callback", told.recv()).await.unwrap();
    rig.state(second, "waiting_external").await;
    let answer = client.callback_resume(callback, Some(&json!({ "ok": true }))).await.unwrap();
    let job = JobId::new(first);
    assert_eq!(answer, Answered::Applied { job, state: JobState::Available });
    let row = rig.state(first, "completed").await;
    assert_eq!((row.result, row.attempt, row.run_lease), (Some(json!({ "ok": true })), 1, 2));
    let again = client.callback_resume(callback, Some(&json!({ "ok": true }))).await.unwrap();
    assert_eq!(again, Answered::Unchanged { job, state: JobState::Completed });
    let answer = client.callback_fail(other, "no such thing").await.unwrap();
    assert_eq!(answer, Answered::Applied { job: JobId::new(second), state: JobState::Failed });
    assert_eq!(rig.row(second).await.last_error(), "no such thing");
    drain(&running).await;
}

/// STATE-02: the outside answers before the handler has even returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_answers_that_come_before_the_parking_are_all_kept() {
    const ROUNDS: i64 = 500;
    let rig = Rig::new().await;
    let pool = rig.pool.clone();
    let handler = move |_: Probe, context: JobContext| {
        let pool = pool.clone();
        async move {
            if let Some(told) = context.callback_payload::<Value>().await? {
                return Ok::<_, JobError>(Outcome::complete_with(told));
            }
            let callback = context.callback(HOUR).await?;
            let answer = callback_resume(&pool, callback, Some(&context.job_id())).await?;
            assert_eq!(answer, Answered::Applied { job: context.job_id(), state: JobState::Running });
            Ok(Outcome::wait_for(callback))
        }
    };
    let many = QueueConfig::new().max_workers(8);
    let client = rig.client().queue("default", many).register(handler).build().unwrap();
    let jobs: Vec<Probe> = (0..ROUNDS).map(|_| probe("a")).collect();
    let _ = awa_worker::enqueue_many(&rig.pool, &jobs).await.unwrap();
    let running = client.start().await.unwrap();
    let done = "select count(*) from awa.jobs where state = 'completed' and result = to_jsonb(id) and attempt = 1
                   and run_lease = 2 and errors is null";
    crate::support::until("all completed", async || rig.count(done).await == ROUNDS).await;
    drain(&running).await;
}

#[tokio::test]
async fn handler_that_still_runs_is_told_that_the_outside_has_ended_its_job_and_nothing_is_alarming() {
    #[derive(Debug, Serialize, Deserialize, JobArgs)]
    #[job(kind = "answered_while_it_runs", output = Value)]
    struct Answerable {
        parks: bool,
    }
    let rig = Rig::new().await;
    log::record();
    let (tell, mut told) = events();
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Answerable, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            let callback = context.callback(HOUR).await?;
            tell.send((context, callback)).map_err(|_| "the test is over")?;
            gate.passed().await;
            Ok::<_, JobError>(if job.parks {
                Outcome::wait_for(callback)
            } else {
                Outcome::complete_with(json!("late"))
            })
        }
    };
    // The handler goes on for a while after it was asked to stop, which is nothing to be alarmed at here.
    let client = rig.client().cancel_grace(HOUR).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    for parks in [false, true] {
        let id = rig.enqueue(&Answerable { parks }).await;
        let (context, callback) = soon("a callback", told.recv()).await.unwrap();
        let answer = client.callback_complete(callback, Some(&"from outside")).await.unwrap();
        assert_eq!(answer, Answered::Applied { job: JobId::new(id), state: JobState::Completed });
        soon("told", context.cancelled()).await;
        assert_eq!(context.cancel_reason(), Some(CancelReason::Answered));
        assert_eq!(rig.row(id).await.result, Some(json!("from outside")));
    }
    gate.open();
    drain(&running).await;
    assert_eq!(rig.count("select count(*) from awa.jobs where result = '\"from outside\"'").await, 2);
    assert_eq!(log::lines(&["WARN", "answered_while_it_runs"]), [""; 0]);
    assert_eq!(log::lines(&["ERROR", "answered_while_it_runs"]), [""; 0]);
}

#[tokio::test]
async fn nothing_and_null_are_told_apart() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let (say, mut said) = events();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, say) = (tell.clone(), say.clone());
        async move {
            if context.run_lease().get() > 1 {
                // Each type reads null as it does elsewhere.
                let value = context.callback_payload::<Value>().await?;
                let option = context.callback_payload::<Option<u8>>().await?;
                let number =
                    context.callback_payload::<u8>().await.map_err(|error| matches!(error, Error::UnfitPayload(_)));
                say.send((value, option, number)).map_err(|_| "the test is over")?;
                return Ok::<_, JobError>(Outcome::complete_with(Value::Null));
            }
            let callback = context.callback(HOUR).await?;
            tell.send(callback.id())?;
            Ok(Outcome::wait_for(callback))
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    rig.enqueue(probe("nothing")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    assert!(matches!(client.callback_resume(callback, NO_PAYLOAD).await.unwrap(), Answered::Applied { .. }));
    assert_eq!(soon("payloads", said.recv()).await.unwrap(), (None, None, Ok(None)));
    rig.enqueue(probe("null")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    assert!(matches!(client.callback_resume(callback, Some(&())).await.unwrap(), Answered::Applied { .. }));
    assert_eq!(soon("payloads", said.recv()).await.unwrap(), (Some(Value::Null), Some(None), Err(true)));
    drain(&running).await;
}

#[tokio::test]
async fn answer_in_a_transaction_counts_if_it_commits() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let client = rig.client().register(waiting(tell)).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    rig.state(id, "waiting_external").await;
    let mut tx = rig.pool.begin().await.unwrap();
    assert!(matches!(callback_resume(&mut *tx, callback, Some(&1)).await.unwrap(), Answered::Applied { .. }));
    tx.rollback().await.unwrap();
    assert_eq!(rig.row(id).await.state, "waiting_external");
    let mut tx = rig.pool.begin().await.unwrap();
    assert!(matches!(callback_resume(&mut *tx, callback, Some(&2)).await.unwrap(), Answered::Applied { .. }));
    tx.commit().await.unwrap();
    assert_eq!(rig.state(id, "completed").await.result, Some(json!(2)));
    drain(&running).await;
}

#[tokio::test]
async fn job_that_nobody_answers_is_tried_again_with_its_progress() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            if context.attempt() == 2 {
                assert_eq!(context.progress().get().percent(), Some(50));
                assert_eq!(context.callback_payload::<Value>().await?, None);
                return Ok::<_, JobError>(Outcome::complete_with(json!("gave up")));
            }
            context.progress().set(50, "asked")?;
            let callback = context.callback(Duration::from_millis(1)).await?;
            tell.send(callback.id())?;
            Ok(Outcome::wait_for(callback))
        }
    };
    let client = rig.client().register(handler.with_retry(RetryPolicy::fixed(Duration::ZERO))).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    rig.state(id, "waiting_external").await;
    crate::support::until("it is due", async || {
        !expire(&rig.pool, ExpireCursor::default(), 10).await.unwrap().jobs.is_empty()
    })
    .await;
    let row = rig.state(id, "retryable").await;
    assert!(row.last_error().starts_with("nobody answered the callback"), "{}", row.last_error());
    let late = client.callback_resume(callback, NO_PAYLOAD).await.unwrap();
    assert_eq!(late, Answered::Refused { job: JobId::new(id), state: JobState::Retryable });
    rig.promote().await;
    assert_eq!(rig.state(id, "completed").await.result, Some(json!("gave up")));
    drain(&running).await;
}

/// RANGE-04: the timeouts at the edges hold exactly, and those beyond are refused.
#[tokio::test]
async fn timeout_is_in_its_range_or_refused() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            let beyond = limits::RUN_IN_MAX + Duration::from_nanos(1);
            for refused in [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(999), beyond, Duration::MAX]
            {
                let error = context.callback(refused).await.expect_err("out of range");
                assert!(matches!(error, Error::CallbackTimeout { timeout } if timeout == refused), "{error}");
            }
            for allowed in [Duration::from_millis(1), 366 * 24 * HOUR, 100 * 366 * 24 * HOUR, limits::RUN_IN_MAX] {
                let callback = context.callback(allowed).await?;
                tell.send((callback.id(), allowed)).map_err(|_| "the test is over")?;
            }
            Ok::<_, JobError>(Value::Null)
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    rig.state(id, "completed").await;
    for _ in 0..4 {
        let (callback, allowed) = told.recv().await.unwrap();
        let seconds: f64 = sqlx::query_scalar(
            "select extract(epoch from due_at - created_at)::double precision from awa.callbacks where id = $1",
        )
        .bind(callback)
        .fetch_one(&rig.pool)
        .await
        .unwrap();
        assert!((seconds - allowed.as_secs_f64()).abs() < 1e-3, "{allowed:?}: {seconds}");
    }
    drain(&running).await;
}

#[tokio::test]
async fn waiting_for_a_callback_of_somebody_else_fails_the_attempt() {
    let rig = Rig::new().await;
    let stray: CallbackId = "6f2b7a52-3f0e-4b6c-9d3f-0a1b2c3d4e5f".parse().unwrap();
    let handler = move |_: Probe| async move { Ok::<_, JobError>(Outcome::<Value>::wait_for(stray)) };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let row = rig.state(id, "retryable").await;
    assert_eq!(row.last_error(), format!("it wanted to wait for callback {stray}, which this attempt has not opened"));
    drain(&running).await;
}

#[tokio::test]
async fn attempt_that_was_taken_away_opens_no_callback_and_is_told() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            tell.send(None).map_err(|_| "the test is over")?;
            gate.passed().await;
            let refused = context.callback(HOUR).await;
            tell.send(Some((refused.map_err(|error| matches!(error, Error::LeaseLost)), context.cancel_reason())))
                .map_err(|_| "the test is over")?;
            Ok::<_, JobError>(Value::Null)
        }
    };
    // Heartbeats come too late to tell it.
    let client = rig.client().without_listen().heartbeat_interval(Duration::from_secs(60)).stale_after(HOUR);
    let client = client.register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    assert!(soon("start", told.recv()).await.unwrap().is_none());
    let _ = client.cancel(JobId::<Probe>::new(id), None).await.unwrap();
    gate.open();
    let (refused, reason) = soon("an answer", told.recv()).await.unwrap().unwrap();
    assert_eq!((refused, reason), (Err(true), Some(CancelReason::Cancelled)));
    assert_eq!(rig.count("select count(*) from awa.callbacks").await, 0);
    drain(&running).await;
}

#[tokio::test]
async fn callback_future_that_is_dropped_costs_no_connection() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            for polls in 0..20 {
                for asks in [false, true] {
                    let request = async {
                        if asks {
                            context.callback_payload::<Value>().await.map(drop)
                        } else {
                            context.callback(HOUR).await.map(drop)
                        }
                    };
                    tokio::pin!(request);
                    let mut left = polls;
                    std::future::poll_fn(|task| {
                        if left == 0 {
                            return std::task::Poll::Ready(());
                        }
                        left -= 1;
                        request.as_mut().poll(task).map(drop)
                    })
                    .await;
                }
            }
            // The last one stands, whatever became of those before.
            let callback = context.callback(HOUR).await?;
            tell.send(callback.id())?;
            Ok::<_, JobError>(Outcome::<Value>::wait_for(callback))
        }
    };
    let client = rig.client().connections(2).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("a callback", told.recv()).await.unwrap();
    rig.state(id, "waiting_external").await;
    let idle = "select count(*) from pg_stat_activity
                 where datname = current_database() and state like 'idle in transaction%'";
    assert_eq!(rig.count(idle).await, 0);
    drain(&running).await;
}

#[tokio::test]
async fn kit_runs_a_handler_that_waits_and_one_that_goes_on() {
    let (tell, mut told) = events();
    let ran = testing::run(waiting(tell.clone()), &probe("a")).await;
    assert_eq!(ran.ended, Ended::Waiting { callback: told.recv().await.unwrap() });
    let ran = testing::run(waiting(tell), &probe("a")).callback_payload(&json!({ "paid": true })).await;
    assert_eq!(ran.output(), Some(&json!({ "paid": true })));
}

#[tokio::test]
async fn kit_lets_callbacks_time_out() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let client = rig.client().register(waiting(tell)).build().unwrap();
    let id = rig.enqueue(probe("a")).await;
    let _ = testing::drain(&client, "default").await.unwrap();
    assert!(told.try_recv().is_ok());
    assert_eq!(rig.row(id).await.state, "waiting_external");
    assert_eq!(testing::advance(&rig.pool, HOUR / 2).await.unwrap().timed_out, []);
    assert_eq!(testing::advance(&rig.pool, HOUR).await.unwrap().timed_out, [JobId::new(id)]);
    assert_eq!(rig.row(id).await.state, "retryable");
}

#[tokio::test]
async fn example_waits_for_its_payment_and_ships() {
    let rig = Rig::new().await;
    let url = rig.database.url();
    let output = tokio::task::spawn_blocking(move || {
        Command::new(example("callback")).env("DATABASE_URL", url).output().expect("the example runs")
    })
    .await
    .expect("no panic");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("attempt 1: 1999 cents are here, order 17 is shipped"), "{text}");
}

#[tokio::test]
async fn a_payload_that_does_not_fit_fails_the_job_at_once_and_an_operators_retry_finds_the_mended_handler() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let mended = Gate::new();
    let is_mended = mended.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, mended) = (tell.clone(), is_mended.clone());
        async move {
            if mended.is_open()
                && let Some(told) = context.callback_payload::<Value>().await?
            {
                return Ok::<_, JobError>(Outcome::complete_with(told));
            }
            if let Some(number) = context.callback_payload::<u32>().await? {
                return Ok(Outcome::complete_with(json!(number)));
            }
            let callback = context.callback(HOUR).await?;
            tell.send(callback).unwrap();
            Ok(Outcome::wait_for(callback))
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    rig.state(id, "waiting_external").await;
    let _ = client.callback_resume(callback, Some(&json!({ "no": "number" }))).await.unwrap();
    let row = rig.state(id, "failed").await;
    assert_eq!((row.attempt, row.errors.as_ref().and_then(Value::as_array).map(Vec::len)), (1, Some(1)));
    let error = row.last_error();
    assert!(error.starts_with("the payload of the callback is not of the type asked for: invalid type"), "{error}");
    mended.open();
    assert_eq!(client.retry(JobId::<Probe>::new(id)).await.unwrap(), Operated::Applied);
    assert_eq!(rig.state(id, "completed").await.result, Some(json!({ "no": "number" })));
    drain(&running).await;
}
