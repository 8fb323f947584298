//! Waiting for jobs: what they produce, how they end otherwise, and what it costs the database.

use std::time::Duration;

use awa_worker::{Client, JobContext, JobError, JobId, JobState, NewJob, Outcome, WaitError};
use serde_json::{Value, json};

use crate::support::{Gate, Other, PATIENCE, Probe, Rig, drain, probe, soon, until};

/// A client whose handler does what the name of the job says.
fn obedient(rig: &Rig) -> Client {
    let handler = async |job: Probe, context: JobContext| match job.name.as_str() {
        "fail" => Err(JobError::fatal("no use")),
        "cancel" => Ok(Outcome::Cancel("not wanted".to_owned())),
        "again" if context.attempt() == 1 => Err(JobError::retryable("not yet").retry_after(Duration::ZERO)),
        name => Ok(Outcome::Complete(json!({ "said": name }))),
    };
    rig.client().register(handler).build().unwrap()
}

#[tokio::test]
async fn a_wait_gives_the_output_or_says_how_the_job_ended_otherwise() {
    let rig = Rig::new().await;
    let client = obedient(&rig);
    let running = client.start().await.unwrap();
    let inserted = client.enqueue(probe("hello")).await.unwrap();
    assert_eq!(client.wait(&inserted, PATIENCE).await.unwrap(), json!({ "said": "hello" }));
    // Long after the end, too.
    assert_eq!(client.wait(inserted.id(), PATIENCE).await.unwrap(), json!({ "said": "hello" }));
    let failed = client.enqueue(probe("fail")).await.unwrap();
    let error = client.wait(&failed, PATIENCE).await.unwrap_err();
    assert!(matches!(&error, WaitError::Failed { error, .. } if error == "no use"), "{error}");
    let cancelled = client.enqueue(probe("cancel")).await.unwrap();
    let error = client.wait(&cancelled, PATIENCE).await.unwrap_err();
    assert!(matches!(&error, WaitError::Cancelled { reason: Some(reason), .. } if reason == "not wanted"), "{error}");
    let mistaken: JobId<Other> = inserted.id().assume();
    let error = client.wait(mistaken, PATIENCE).await.unwrap_err();
    assert!(matches!(error, WaitError::Output { .. }), "{error}");
    let later = client.enqueue(NewJob::new(&probe("later")).run_in(PATIENCE)).await.unwrap();
    let error = client.wait(&later, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { seen: Some(JobState::Scheduled), .. }), "{error}");
    assert!(client.pause_queue("default").await.unwrap());
    let paused = client.enqueue(probe("paused")).await.unwrap();
    let error = client.wait(&paused, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { paused: true, .. }), "{error}");
    assert!(error.to_string().ends_with("it was available, and its queue is paused"), "{error}");
    assert!(client.resume_queue("default").await.unwrap());
    let nobody = JobId::<Probe>::new(i64::MAX);
    let error = client.wait(nobody, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { seen: None, .. }), "{error}");
    drain(&running).await;
}

#[tokio::test]
async fn a_wait_may_begin_before_the_job_is_committed_and_outlasts_retries() {
    let rig = Rig::new().await;
    let client = obedient(&rig);
    let running = client.start().await.unwrap();
    let mut tx = rig.pool.begin().await.unwrap();
    let inserted = client.enqueue_in(&mut *tx, probe("again")).await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.wait(&inserted, PATIENCE).await }
    });
    let mut changes = client.watch(&inserted);
    tx.commit().await.unwrap();
    loop {
        let change = soon("a change", changes.next()).await.unwrap().unwrap();
        if change.state == JobState::Retryable {
            assert_eq!(change.error.as_deref(), Some("not yet"));
            break;
        }
    }
    rig.promote().await;
    assert_eq!(soon("output", waiting).await.unwrap().unwrap(), json!({ "said": "again" }));
    let mut last = None;
    while let Some(change) = soon("the end", changes.next()).await {
        last = Some(change.unwrap());
    }
    let last = last.expect("a last change");
    assert_eq!((last.state, last.attempt), (JobState::Completed, 2));
    drain(&running).await;
}

#[tokio::test]
async fn a_watch_shows_progress_and_says_that_the_job_was_deleted() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let handler = {
        let gate = gate.clone();
        move |_: Probe, context: JobContext| {
            let gate = gate.clone();
            async move {
                context.progress().set(40, "nearly half")?;
                gate.passed().await;
                Ok::<Value, JobError>(Value::Null)
            }
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let inserted = client.enqueue(probe("a")).await.unwrap();
    let mut changes = client.watch(&inserted);
    loop {
        let change = soon("progress", changes.next()).await.unwrap().unwrap();
        if change.progress.as_ref().and_then(awa_worker::Progress::percent) == Some(40) {
            assert_eq!(change.state, JobState::Running);
            break;
        }
    }
    let _ = client.delete_job(inserted.id()).await.unwrap();
    let end = soon("the end", changes.next()).await.unwrap().unwrap_err();
    assert!(matches!(end, WaitError::Gone { .. }), "{end}");
    assert!(soon("nothing more", changes.next()).await.is_none());
    gate.open();
    drain(&running).await;
}

/// Ends all jobs as a worker of another process would, with this result.
async fn complete_all(rig: &Rig) {
    rig.execute(
        "update awa.jobs_hot set state = 'running';
         update awa.jobs_hot set state = 'completed', finalized_at = now(), result = '7'",
    )
    .await;
}

/// How often the server has run the function that a look calls.
async fn looks(rig: &Rig) -> i64 {
    rig.count("select coalesce(sum(calls), 0)::bigint from pg_stat_user_functions where funcname = 'job_statuses'")
        .await
}

#[tokio::test]
async fn two_hundred_waits_are_one_statement_a_look_and_leave_nothing_behind() {
    let rig = Rig::new().await;
    let options = rig.database.options().options([("track_functions", "all")]);
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let client = Client::builder(pool).build().unwrap();
    let jobs = client.enqueue_many((0..200).map(|n| probe(&n.to_string()))).await.unwrap();
    let waits: Vec<_> = jobs
        .iter()
        .map(|job| {
            let (client, job) = (client.clone(), *job);
            tokio::spawn(async move { client.wait(&job, PATIENCE).await })
        })
        .collect();
    // Each has joined and was looked at: some looks, and far fewer than jobs.
    until("looks", async || looks(&rig).await >= 5).await;
    let before = looks(&rig).await;
    assert!(before < 100, "{before} looks for 200 waits");
    complete_all(&rig).await;
    for wait in waits {
        assert_eq!(soon("output", wait).await.unwrap().unwrap(), json!(7));
    }
    // Nobody waits: the poller has ended, and a new wait starts another.
    let settled = looks(&rig).await;
    assert_eq!(client.wait(&jobs[0], PATIENCE).await.unwrap(), json!(7));
    until("one more look", async || looks(&rig).await > settled).await;
    let dropped = client.enqueue(probe("dropped")).await.unwrap();
    let mut watch = client.watch(&dropped);
    assert_eq!(soon("a sight", watch.next()).await.unwrap().unwrap().state, JobState::Available);
    drop(watch);
    assert!(soon("the connection", client.pool().acquire()).await.is_ok(), "no look holds it");
}

#[tokio::test]
async fn an_outage_is_waited_out_and_a_refusal_is_not() {
    let rig = Rig::new().await;
    let client = Client::builder(rig.pool.clone()).build().unwrap();
    let job = client.enqueue(probe("a")).await.unwrap();
    let wait = tokio::spawn({
        let client = client.clone();
        async move { client.wait(&job, PATIENCE).await }
    });
    let mut changes = client.watch(&job);
    assert!(soon("a sight", changes.next()).await.unwrap().is_ok());
    // Read-only and disconnected, as after a failover.
    rig.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()")
        .await;
    complete_all(&rig).await;
    assert_eq!(soon("output", wait).await.unwrap().unwrap(), json!(7));
    assert_eq!(soon("the end", changes.next()).await.unwrap().unwrap().state, JobState::Completed);
    let other = client.enqueue(probe("b")).await.unwrap();
    rig.execute("alter function awa.job_statuses(bigint[]) rename to elsewhere").await;
    let error = soon("a refusal", client.wait(&other, PATIENCE)).await.unwrap_err();
    assert!(matches!(error, WaitError::Storage { .. }), "{error}");
}

#[test]
fn a_wait_outlives_the_runtime_of_the_one_that_began_to_poll() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let rig = second.block_on(Rig::new());
    let client = Client::builder(rig.database.pool()).build().unwrap();
    let job = second.block_on(client.enqueue(probe("a"))).unwrap();
    let watch = |runtime: &tokio::runtime::Runtime| {
        let mut changes = client.watch(&job);
        let seen = runtime.block_on(async { changes.next().await.unwrap().unwrap().state });
        assert_eq!(seen, JobState::Available);
        changes
    };
    let abandoned = watch(&first);
    let mut changes = watch(&second);
    drop(first);
    drop(abandoned);
    second.block_on(async {
        complete_all(&rig).await;
        assert_eq!(soon("the end", changes.next()).await.unwrap().unwrap().state, JobState::Completed);
        rig.database.pool().close().await;
    });
}
