//! What a handler leaves behind: tasks that go on with its context, clients that are dropped, others of its kind next door.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use awa_worker::{Client, Error, JobContext, JobError, NewJob, QueueConfig};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

/// All that a context can be asked to write; nothing of it is written.
async fn can_do_nothing(rig: &Rig, context: &JobContext) {
    let ran = AtomicUsize::new(0);
    let step = context.step("late", async || Ok::<_, JobError>(ran.fetch_add(1, Ordering::SeqCst))).await;
    let refused = step.expect_err("the attempt is over");
    assert!(matches!(refused.downcast_ref(), Some(Error::LeaseLost)), "{refused:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 0, "the step has no effect");
    let callback = context.callback(Duration::from_secs(60)).await;
    assert!(matches!(callback, Err(Error::LeaseLost)), "{callback:?}");
    let mut transaction = rig.pool.begin().await.unwrap();
    let completed = context.complete_in(&mut *transaction, json!("late")).await;
    assert!(matches!(completed, Err(Error::LeaseLost)), "{completed:?}");
    transaction.commit().await.unwrap();
    let _ = context.progress().set(99, "late");
    let flushed = context.progress().flush().await;
    assert!(matches!(flushed, Err(Error::LeaseLost)), "{flushed:?}");
}

async fn whole_row(rig: &Rig, id: i64) -> Value {
    sqlx::query_scalar("select to_jsonb(job) from awa.jobs as job where id = $1")
        .bind(id)
        .fetch_one(&rig.pool)
        .await
        .unwrap()
}

/// A worker whose handler shows its context; the second attempt of a job waits at the gate.
async fn showing(rig: &Rig, gate: &Gate) -> (awa_worker::Running, UnboundedReceiver<JobContext>) {
    let (tell, told) = events();
    let passed = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            tell.send(context.clone()).unwrap();
            match (job.name.as_str(), context.attempt()) {
                ("fails", 1) => Err("failed".into()),
                ("fails", _) => {
                    gate.passed().await;
                    Ok(json!("again"))
                }
                _ => Ok::<_, JobError>(json!("done")),
            }
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_secs(30)).stale_after(Duration::from_secs(90));
    (client.register(handler).build().unwrap().start().await.unwrap(), told)
}

#[tokio::test]
async fn tasks_that_outlive_their_attempt_change_nothing_by_its_context() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (running, mut told) = showing(&rig, &gate).await;
    for (name, state) in [("succeeds", "completed"), ("fails", "retryable")] {
        let id = rig.enqueue(probe(name)).await;
        let context = soon("a start", told.recv()).await.unwrap();
        rig.state(id, state).await;
        let before = whole_row(&rig, id).await;
        can_do_nothing(&rig, &context).await;
        assert_eq!(whole_row(&rig, id).await, before, "{name}");
        if state == "retryable" {
            rig.promote().await;
            let newer = soon("a start", told.recv()).await.unwrap();
            can_do_nothing(&rig, &context).await;
            assert!(!newer.is_cancelled());
            newer.step("mine", async || Ok::<_, JobError>(1)).await.expect("the newer attempt is untouched");
            gate.open();
            assert_eq!(rig.state(id, "completed").await.result, Some(json!("again")));
        }
    }
    assert_eq!(rig.count("select count(*) from awa.callbacks").await, 0);
    drain(&running).await;
}

#[tokio::test]
async fn a_handler_may_drop_the_last_client_and_what_keeps_its_worker() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let kept: Arc<Mutex<Option<(Client, awa_worker::Running)>>> = Arc::default();
    let in_handler = Arc::clone(&kept);
    let handler = move |_: Probe| {
        let (tell, kept) = (tell.clone(), Arc::clone(&in_handler));
        async move {
            drop(kept.lock().await.take());
            tell.send(()).unwrap();
            Ok::<_, JobError>(Value::Null)
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    *kept.lock().await = Some((client, running));
    let id = rig.enqueue(probe("a")).await;
    soon("the handler", told.recv()).await.unwrap();
    // Whoever drops it lets the worker end in order: its job is not left running.
    until("an end of the job", async || rig.row(id).await.state != "running").await;
    until("farewell", async || rig.count("select count(*) from awa.workers").await == 0).await;
}

#[tokio::test]
async fn two_clients_of_a_process_share_queues_and_run_each_job_once() {
    let rig = Rig::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let client = || {
        let runs = Arc::clone(&runs);
        let handler = move |_: Probe| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, JobError>(Value::Null) }
        };
        rig.client().queue("default", QueueConfig::new().max_workers(7)).register(handler).build().unwrap()
    };
    let (one, two) = (client().start().await.unwrap(), client().start().await.unwrap());
    awa_worker::enqueue_many(&rig.pool, (0..500).map(|number| probe(&number.to_string()))).await.unwrap();
    until("all", async || rig.count("select count(*) from awa.jobs where state = 'completed'").await == 500).await;
    drain(&one).await;
    // The other goes on alone.
    let id = rig.enqueue(NewJob::new(&probe("last")).priority(1)).await;
    rig.state(id, "completed").await;
    drain(&two).await;
    assert_eq!(runs.load(Ordering::SeqCst), 501);
}

/// Between the claim's commit and the start of its handler, an operator is faster.
#[tokio::test]
async fn a_job_that_is_cancelled_as_soon_as_it_is_claimed_is_not_completed() {
    let rig = Rig::new().await;
    let handler = async |_: Probe| Ok::<_, JobError>(json!("done"));
    let running = rig.client().queue("default", QueueConfig::new().max_workers(20)).register(handler).build().unwrap();
    let running = running.start().await.unwrap();
    let cancelling = tokio::spawn({
        let pool = rig.pool.clone();
        async move {
            let mut cancelled = 0_i64;
            while cancelled < 50 {
                let some = "select count(*) from (select awa.cancel(id) as done from awa.jobs where state = 'running') as all_of
                             where done::text like '%applied%'";
                cancelled += sqlx::query_scalar::<_, i64>(some).fetch_one(&pool).await.unwrap();
                let left: i64 =
                    sqlx::query_scalar("select count(*) from awa.jobs where state in ('available', 'running')")
                        .fetch_one(&pool)
                        .await
                        .unwrap();
                if left == 0 {
                    break;
                }
            }
            cancelled
        }
    });
    awa_worker::enqueue_many(&rig.pool, (0..2000).map(|number| probe(&number.to_string()))).await.unwrap();
    let cancelled = soon("cancellations", cancelling).await.unwrap();
    until("an end of all", async || {
        rig.count("select count(*) from awa.jobs where state in ('available', 'running')").await == 0
    })
    .await;
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'cancelled'").await, cancelled);
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'cancelled' and result is not null").await, 0);
    assert_eq!(rig.count("select count(*) from awa.jobs").await, 2000);
    drain(&running).await;
}
