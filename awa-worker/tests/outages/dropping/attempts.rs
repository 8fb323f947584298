//! What a handler asks for. Its worker has a single connection for that, so one that got lost would be missed.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use awa_worker::{
    Answered, CallbackId, Executed, Handler, HandlerExt as _, JobContext, JobError, Middleware, NewJob, Next, Outcome,
    RetryPolicy, Running, callback_complete, callback_resume,
};
use serde_json::{Value, json};
use sqlx::types::Uuid;
use tokio::task::yield_now;

use super::{gone, polled};
use crate::support::{Probe, Rig, drain, events, probe, soon, until};
use crate::worker::client;

const HOUR: Duration = Duration::from_secs(3600);

/// Transactions that a worker has left open, and what it has left locked.
const LEFT_OPEN: &str = "select (select count(*) from pg_stat_activity
                                  where application_name like 'awa %' and datname = current_database()
                                    and state like 'idle in transaction%')
                              + (select count(*) from pg_locks join pg_stat_activity using (pid)
                                  where application_name like 'awa %' and datname = current_database()
                                    and locktype <> 'advisory')";

/// Starts a worker with one connection for everything but heartbeats.
async fn start<M: Send + 'static>(rig: &Rig, handler: impl Handler<M, Args = Probe>) -> Running {
    let handler = handler.with_retry(RetryPolicy::fixed(Duration::ZERO));
    client(&rig.pool, 10).connections(2).register(handler).build().unwrap().start().await.unwrap()
}

async fn end(rig: &Rig, running: &Running) {
    until("no open transaction and no lock", async || rig.count(LEFT_OPEN).await == 0).await;
    drain(running).await;
    gone(rig).await;
}

/// What a step does: something that takes several polls. Counts how often it was done to the end.
async fn effect(done: &AtomicUsize) -> Result<usize, JobError> {
    yield_now().await;
    yield_now().await;
    Ok(done.fetch_add(1, Ordering::AcqRel) + 1)
}

// CONN-11: within one attempt.
#[tokio::test]
async fn dropped_step_runs_again_until_it_is_done_and_never_after_that() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            let (begun, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            for times in 0.. {
                let run = async || {
                    begun.fetch_add(1, Ordering::AcqRel);
                    effect(&done).await
                };
                if let Some(taken) = polled(times, context.step::<_, JobError, _, _>("effect", run)).await {
                    tell.send((taken?, begun.into_inner(), done.into_inner(), times)).unwrap();
                    break;
                }
            }
            Err::<Value, JobError>(JobError::fatal("the end"))
        }
    };
    let running = start(&rig, handler).await;
    let id = rig.enqueue(probe("a")).await;
    let (taken, begun, done, times) = soon("a step", told.recv()).await.unwrap();
    assert_eq!((taken, done), (1, 1), "its result is that of the only run that came to its end");
    assert!(begun > 1 && times > begun, "dropped in the step {begun} times, and while its result was stored: {times}");
    let row = rig.state(id, "failed").await;
    assert_eq!(row.progress.unwrap()["metadata"]["$steps"]["effect"], json!(1));
    end(&rig, &running).await;
}

// CONN-11: what was done when the handler gave up is stored with the end of the attempt.
#[tokio::test]
async fn attempt_after_a_dropped_step_does_not_repeat_what_was_done() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let done: Arc<[AtomicUsize; 20]> = Arc::default();
    let counts = Arc::clone(&done);
    let handler = move |job: Probe, context: JobContext| {
        let (tell, done) = (tell.clone(), Arc::clone(&counts));
        async move {
            let times: usize = job.name.parse()?;
            let step = context.step("effect", async || effect(&done[times]).await);
            if context.attempt() == 1 {
                let taken = polled(times, step).await.transpose()?;
                tell.send((taken.is_some(), done[times].load(Ordering::Acquire))).unwrap();
                return Err("again".into());
            }
            Ok::<_, JobError>(json!(step.await?))
        }
    };
    let running = start(&rig, handler).await;
    let (mut undone, mut unanswered) = (0, 0);
    for times in 0.. {
        let id = rig.enqueue(probe(&times.to_string())).await;
        let (answered, so_far) = soon("the first attempt", told.recv()).await.unwrap();
        let row = rig.state(id, "completed").await;
        assert_eq!((row.result, row.attempt), (Some(json!(1)), 2));
        assert_eq!(done[times].load(Ordering::Acquire), 1, "dropped after {times} polls");
        undone += usize::from(so_far == 0);
        unanswered += usize::from(so_far == 1 && !answered);
        if answered {
            break;
        }
    }
    assert!(undone > 1 && unanswered > 0, "{undone} dropped in the step, {unanswered} while its result was stored");
    end(&rig, &running).await;
}

// CONN-11: whoever waits for the same step gets its turn.
#[tokio::test]
async fn dropped_step_leaves_its_turn_to_the_next_who_asks() {
    let rig = Rig::new().await;
    let handler = move |_: Probe, context: JobContext| async move {
        let hangs = async || std::future::pending::<Result<i32, JobError>>().await;
        let mut first = Box::pin(context.step("effect", hangs));
        let begun = poll_fn(|task| Poll::Ready(first.as_mut().poll(task).is_pending())).await;
        let mut second = Box::pin(context.step("effect", async || Ok::<i32, JobError>(2)));
        let waits = poll_fn(|task| Poll::Ready(second.as_mut().poll(task).is_pending())).await;
        assert!(begun && waits);
        drop(first);
        Ok::<_, JobError>(json!(second.await?))
    };
    let running = start(&rig, handler).await;
    let id = rig.enqueue(probe("a")).await;
    assert_eq!(rig.state(id, "completed").await.result, Some(json!(2)));
    end(&rig, &running).await;
}

/// Answers all callbacks of a job but this one, which must have no effect. Returns how many there are.
async fn refused(rig: &Rig, id: i64, but: CallbackId) -> usize {
    let others: Vec<Uuid> = sqlx::query_scalar("select id from awa.callbacks where job_id = $1 and id <> $2")
        .bind(id)
        .bind(but.get())
        .fetch_all(&rig.pool)
        .await
        .unwrap();
    let before = rig.row(id).await;
    for other in &others {
        let answer = callback_resume(&rig.pool, CallbackId::new(*other), Some("?")).await.unwrap();
        assert!(matches!(answer, Answered::Refused { .. }), "{answer:?}");
    }
    assert_eq!(rig.row(id).await, before);
    others.len()
}

// CONN-11
#[tokio::test]
async fn dropped_callback_is_good_for_nothing_once_its_attempt_has_ended_or_waits_for_another() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |job: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            let (mut times, mut opened) = (0, None);
            while opened.is_none() {
                opened = polled(times, context.callback(HOUR)).await.transpose()?;
                times += 1;
            }
            let callback = opened.ok_or("opened")?;
            tell.send((callback.id(), times - 1)).unwrap();
            Ok::<_, JobError>(if job.name == "waits" {
                Outcome::wait_for(callback)
            } else {
                Outcome::complete_with(json!("without"))
            })
        }
    };
    let running = start(&rig, handler).await;
    let waits = rig.enqueue(probe("waits")).await;
    let (callback, dropped) = soon("a callback", told.recv()).await.unwrap();
    rig.state(waits, "waiting_external").await;
    let others = refused(&rig, waits, callback).await;
    assert!((1..=dropped).contains(&others), "{others} of {dropped} that were dropped");
    let answer = callback_complete(&rig.pool, callback, Some("done")).await.unwrap();
    assert!(matches!(answer, Answered::Applied { .. }), "{answer:?}");
    assert_eq!(rig.state(waits, "completed").await.result, Some(json!("done")));
    let ends = rig.enqueue(probe("ends")).await;
    rig.state(ends, "completed").await;
    assert!(refused(&rig, ends, CallbackId::new(Uuid::nil())).await > 1);
    end(&rig, &running).await;
}

// CONN-11
#[tokio::test]
async fn dropped_look_at_the_payload_takes_nothing_from_the_next() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            let (mut times, mut asked) = (0, None);
            while asked.is_none() {
                asked = polled(times, context.callback_payload::<Value>()).await;
                times += 1;
            }
            assert!(times > 2, "never dropped");
            if let Some(payload) = asked.transpose()?.flatten() {
                return Ok::<_, JobError>(Outcome::complete_with(payload));
            }
            let callback = context.callback(HOUR).await?;
            tell.send(callback.id()).unwrap();
            Ok(Outcome::wait_for(callback))
        }
    };
    let running = start(&rig, handler).await;
    let id = rig.enqueue(probe("a")).await;
    let callback = soon("a callback", told.recv()).await.unwrap();
    let _ = callback_resume(&rig.pool, callback, Some("it came")).await.unwrap();
    assert_eq!(rig.state(id, "completed").await.result, Some(json!("it came")));
    end(&rig, &running).await;
}

/// Gives the first attempt of a job up after as many polls as its tag says.
struct Impatient;

#[awa_worker::async_trait]
impl Middleware for Impatient {
    async fn execute(&self, job: JobContext, next: Next) -> Executed {
        let times = if job.attempt() == 1 { job.tags()[0].parse().unwrap() } else { usize::MAX };
        polled(times, next.run()).await.unwrap_or_else(|| Err("given up".into()))
    }
}

// CONN-11: the handler with all that it waits for.
#[tokio::test]
async fn handler_that_a_middleware_drops_has_failed_and_the_next_attempt_finds_what_it_stored() {
    let rig = Rig::new().await;
    let done: Arc<[AtomicUsize; 32]> = Arc::default();
    let counts = Arc::clone(&done);
    let handler = move |job: Probe, context: JobContext| {
        let done = Arc::clone(&counts);
        async move {
            let times: usize = job.name.parse()?;
            let before = context.checkpoint::<bool>("begun")?.is_some();
            context.set_checkpoint("begun", &true)?;
            context.progress().flush().await?;
            let _: usize = context.step("effect", async || effect(&done[times]).await).await?;
            let _ = context.callback(HOUR).await?;
            Ok::<_, JobError>(json!(before))
        }
    };
    let handler = handler.with_retry(RetryPolicy::fixed(Duration::ZERO));
    let client = client(&rig.pool, 10).connections(2).middleware(Impatient).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let (mut times, mut begun) = (0, 0);
    loop {
        let job: NewJob<Probe> = NewJob::new(&probe(&times.to_string())).tag(times.to_string());
        let id = rig.enqueue(job).await;
        let row = rig.state(id, "completed").await;
        assert_eq!(done[times].load(Ordering::Acquire), 1, "dropped after {times} polls");
        if row.attempt == 1 {
            break;
        }
        assert_eq!(row.last_error(), "given up");
        begun += usize::from(row.result == Some(json!(true)));
        times += 1;
    }
    assert!(times > 4 && begun == times - 1, "{begun} of {times} had begun");
    end(&rig, &running).await;
}
