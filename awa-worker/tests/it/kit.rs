//! The testing kit keeps what it says to those who test their services with it.

use std::panic::AssertUnwindSafe;
use std::process::Command;
use std::time::Duration;

use awa_worker::testing::{self, Drain, Ended, Faults, LeftBecause};
use awa_worker::{
    CancelReason, Client, Data, Error, JobArgs, JobContext, JobError, JobState, NewJob, Outcome, Progress,
    assert_enqueued, assert_not_enqueued,
};
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::support::{Other, Probe, Rig, probe, soon};

const HOUR: Duration = Duration::from_secs(3600);

/// Does what the name of its job says.
async fn obedient(job: Probe, context: JobContext) -> Result<Outcome<Value>, JobError> {
    match job.name.as_str() {
        "fail" => Err(JobError::fatal("no use")),
        "again" => Err(JobError::retryable("not yet").retry_after(HOUR)),
        "snooze" => Ok(Outcome::Snooze(HOUR)),
        "cancel" => Ok(Outcome::Cancel("not wanted".to_owned())),
        "panic" => panic!("oh no"),
        "stuck" => std::future::pending().await,
        "wait" => {
            context.cancelled().await;
            Err("interrupted".into())
        }
        "flush" => {
            context.progress().set(40, "nearly half")?;
            context.progress().flush().await?;
            context.progress().set(60, "more than half")?;
            Ok(Outcome::Complete(json!(context.checkpoint::<i64>("done")?)))
        }
        name => Ok(Outcome::Complete(json!(name))),
    }
}

#[tokio::test]
async fn a_handler_that_runs_without_a_database_ends_as_it_would_in_a_worker() {
    let ended = async |name: &str| testing::run(obedient, probe(name)).await.ended;
    assert_eq!(ended("done").await, Ended::Completed(json!("done")));
    assert_eq!(ended("fail").await, Ended::Failed { error: "no use".to_owned() });
    assert_eq!(ended("again").await, Ended::Retryable { after: Some(HOUR), error: "not yet".to_owned() });
    assert_eq!(ended("snooze").await, Ended::Snoozed { after: HOUR });
    assert_eq!(ended("cancel").await, Ended::Cancelled { reason: "not wanted".to_owned() });
    let panicked = testing::run(obedient, probe("panic")).await;
    let error = panicked.error().expect("an error");
    assert!(error.contains("oh no") && error.contains("kit.rs:"), "{error}");
    let last = testing::run(obedient, NewJob::new(&probe("again")).max_attempts(3)).attempt(3).await;
    assert_eq!(last.ended, Ended::Failed { error: "not yet".to_owned() });
    let late = testing::run(obedient, NewJob::new(&probe("stuck")).timeout(Duration::from_millis(1)));
    let late = late.with(|builder| builder.cancel_grace(Duration::ZERO)).await;
    assert_eq!(late.error(), Some("timed out after 1ms"));
}

#[tokio::test]
async fn a_handler_finds_what_earlier_attempts_left_and_what_it_stores_is_reported() {
    let mut left = Progress::new();
    left.set_checkpoint("done", &17).unwrap();
    let ran = testing::run(obedient, probe("flush")).progress(left).await;
    assert_eq!(ran.output(), Some(&json!(17)));
    assert_eq!(ran.progress.percent(), Some(60));
    assert_eq!(ran.stored.iter().map(Progress::percent).collect::<Vec<_>>(), [Some(40)]);
    assert_eq!(ran.stored[0].checkpoint("done"), Some(&json!(17)));
    let refused = testing::run(obedient, probe("flush")).faults(Faults::new().fail_request(1)).await;
    assert!(matches!(refused.ended, Ended::Retryable { .. }), "{refused:?}");
    assert_eq!((refused.stored.len(), refused.progress.percent()), (0, Some(40)));
}

#[tokio::test]
async fn a_handler_can_be_asked_to_stop_where_the_test_wants_it() {
    let stopped = async |at, reason| testing::run(obedient, probe("wait")).cancel_at_wait(at, reason).await.ended;
    assert_eq!(stopped(0, CancelReason::Shutdown).await, Ended::Released);
    assert_eq!(stopped(1, CancelReason::Shutdown).await, Ended::Released);
    let Ended::Retryable { error, .. } = stopped(1, CancelReason::TimedOut).await else { panic!("not retryable") };
    assert_eq!(error, "timed out; asked to stop, the handler failed: interrupted");
    let lost = testing::run(obedient, probe("flush")).faults(Faults::new().lose_lease(1)).await;
    assert_eq!((lost.ended, lost.stored.len()), (Ended::Discarded, 0));
}

#[tokio::test]
async fn a_value_that_the_handler_needs_is_given_or_missed_by_name() {
    let handler = async |_: Other, base: Data<i64>| {
        assert_eq!(*base, 40);
        Ok::<(), JobError>(())
    };
    let ran = testing::run(handler, Other { number: 2 }).data(40_i64).await;
    assert_eq!(ran.output(), Some(&()));
    let missing = AssertUnwindSafe(async { testing::run(handler, Other { number: 2 }).await }).catch_unwind().await;
    assert!(message(missing.map(drop)).contains("needs Data<i64>"));
}

/// The message of a panic.
fn message(panicked: Result<(), Box<dyn std::any::Any + Send>>) -> String {
    let payload = panicked.expect_err("it panics");
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "no text".to_owned())
}

/// A client whose probes enqueue an `Other` each, in the transaction of nobody.
fn client(pool: &PgPool) -> Client {
    let follow = async |job: Other| if job.number == 13 { Err("unlucky") } else { Ok(()) };
    Client::builder(pool.clone()).register(obedient).register(follow).build().unwrap()
}

#[tokio::test]
async fn a_drain_runs_what_is_due_and_leaves_what_is_not() {
    let rig = Rig::new().await;
    let client = client(&rig.pool);
    let low = rig.enqueue(NewJob::new(&probe("low")).priority(4)).await;
    let high = rig.enqueue(NewJob::new(&probe("high")).priority(1)).await;
    let again = rig.enqueue(NewJob::new(&probe("again")).priority(3)).await;
    let later = rig.enqueue(NewJob::new(&probe("later")).run_in(HOUR)).await;
    let elsewhere = rig.enqueue(NewJob::new(&probe("elsewhere")).queue("other")).await;
    let drained = testing::drain(&client, "default").await.unwrap();
    let order: Vec<i64> = drained.attempts.iter().map(|attempt| attempt.job_id.get()).collect();
    assert_eq!(order, [high, again, low]);
    assert_eq!((drained.count(JobState::Completed), drained.errors()), (2, vec!["not yet"]));
    assert_eq!(rig.row(high).await.result, Some(json!("high")));
    let states = [rig.row(again).await.state, rig.row(later).await.state, rig.row(elsewhere).await.state];
    assert_eq!(states, ["retryable", "scheduled", "available"]);
    assert!(testing::drain(&client, "default").await.unwrap().is_empty());
    assert_eq!(testing::advance(&rig.pool, HOUR / 2).await.unwrap().promoted, 0);
    assert_eq!(testing::advance(&rig.pool, HOUR).await.unwrap().promoted, 2);
    let drained = testing::drain(&client, "default").await.unwrap();
    let second: Vec<_> = drained.attempts.iter().map(|one| (one.job_id.get(), one.attempt, one.state)).collect();
    assert_eq!(second.len(), 2);
    assert!(second.contains(&(again, 2, Some(JobState::Retryable))), "{second:?}");
    assert!(second.contains(&(later, 1, Some(JobState::Completed))), "{second:?}");
    assert_eq!(rig.count("select count(*) from awa.workers").await, 0);
}

#[tokio::test]
async fn a_drain_runs_what_its_handlers_enqueue_and_what_is_due_again_at_once() {
    let rig = Rig::new().await;
    let pool = rig.pool.clone();
    let parent = move |job: Probe, context: JobContext| {
        let pool = pool.clone();
        async move {
            if context.attempt() == 1 {
                return Err(JobError::retryable("first").retry_after(Duration::ZERO));
            }
            let _ = awa_worker::enqueue(&pool, Other { number: 1 }).await?;
            Ok(json!(job.name))
        }
    };
    let client = rig.client().register(parent).register(async |_: Other| Ok::<(), JobError>(())).build().unwrap();
    let id = rig.enqueue(probe("a")).await;
    let drained = testing::drain(&client, "default").await.unwrap();
    let seen: Vec<_> = drained.attempts.iter().map(|one| (one.kind.as_str(), one.attempt, one.state)).collect();
    let (again, done) = (Some(JobState::Retryable), Some(JobState::Completed));
    assert_eq!(seen, [("probe", 1, again), ("probe", 2, done), ("other", 1, done)]);
    assert_eq!(rig.row(id).await.state, "completed");
}

#[tokio::test]
async fn a_drain_inside_a_transaction_runs_what_nobody_else_sees_and_leaves_nothing_after_a_rollback() {
    let rig = Rig::new().await;
    let client = client(&rig.pool);
    let mut tx = rig.pool.begin().await.unwrap();
    for name in ["done", "flush", "again", "panic"] {
        let _ = client.enqueue_in(&mut *tx, probe(name)).await.unwrap();
    }
    assert_enqueued!(&mut *tx, Probe, count = 4);
    assert_not_enqueued!(&rig.pool, probe("done"));
    let drained = soon("drain", testing::drain_in(&mut tx, &client, "default")).await.unwrap();
    assert_eq!((drained.len(), drained.count(JobState::Completed)), (4, 2));
    assert_eq!(testing::advance(&mut *tx, 2 * HOUR).await.unwrap().promoted, 2);
    let drained = testing::drain_in(&mut tx, &client, "default").await.unwrap();
    assert_eq!(drained.attempts.iter().map(|one| one.attempt).collect::<Vec<_>>(), [2, 2]);
    for relation in ["jobs", "workers", "active_claims", "queues"] {
        let rows = format!("select count(*) from awa.{relation}");
        let rows: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(rows)).fetch_one(&rig.pool).await.unwrap();
        assert_eq!(rows, 0, "{relation} is seen from outside");
    }
    tx.rollback().await.unwrap();
    assert_eq!(rig.count("select count(*) from awa.jobs").await, 0);
}

#[tokio::test]
async fn a_crash_leaves_the_job_running_until_it_is_rescued_and_the_next_attempt_is_the_second() {
    for faults in
        [Faults::new().crash_after_claim(1), Faults::new().crash_before_settling(1), Faults::new().lose_lease(1)]
    {
        let rig = Rig::new().await;
        let client = client(&rig.pool);
        let id = rig.enqueue(probe("flush")).await;
        let drained = Drain::new().faults(faults).run(&client, "default").await.unwrap();
        let states: Vec<_> = drained.attempts.iter().map(|one| one.state).collect();
        assert_eq!(states, [Some(JobState::Running)], "{faults:?}");
        let advanced = testing::advance(&rig.pool, Duration::ZERO).await.unwrap();
        assert_eq!(advanced.rescued.iter().map(|job| job.get()).collect::<Vec<_>>(), [id], "{faults:?}");
        let _ = testing::advance(&rig.pool, HOUR).await.unwrap();
        let drained = testing::drain(&client, "default").await.unwrap();
        let states: Vec<_> = drained.attempts.iter().map(|one| (one.attempt, one.state)).collect();
        assert_eq!(states, [(2, Some(JobState::Completed))], "{faults:?}");
    }
}

#[tokio::test]
async fn an_assertion_that_fails_lists_what_is_there() {
    let rig = Rig::new().await;
    let _ = rig.enqueue(NewJob::new(&probe("a")).queue("images").tag("t")).await;
    let _ = rig.enqueue(Other { number: 7 }).await;
    assert_enqueued!(&rig.pool, probe("a"));
    assert_enqueued!(&rig.pool, Probe, |job| job.name.starts_with('a'));
    assert_enqueued!(&rig.pool, Other, count = 1);
    assert_not_enqueued!(&rig.pool, probe("b"));
    assert_not_enqueued!(&rig.pool, Probe, |job| job.name.is_empty());
    let jobs = testing::enqueued::<Probe>(&rig.pool).await.unwrap();
    assert_eq!(
        (jobs.len(), jobs[0].queue.as_str(), jobs[0].tags.as_slice()),
        (1, "images", ["t".to_owned()].as_slice())
    );
    let failed = AssertUnwindSafe(async { assert_enqueued!(&rig.pool, probe("b")) }).catch_unwind().await;
    let text = message(failed);
    assert!(text.contains("kit.rs:") && text.contains(r#"no probe job with probe("b") waits to be run"#), "{text}");
    assert!(text.contains("2 jobs wait:") && text.contains(r#"probe on images (available): {"name":"a"}"#), "{text}");
    let failed = AssertUnwindSafe(async { assert_not_enqueued!(&rig.pool, probe("a")) }).catch_unwind().await;
    assert!(message(failed).contains("a probe job with probe(\"a\") waits"));
    let failed = AssertUnwindSafe(async { assert_enqueued!(&rig.pool, Other, count = 2) }).catch_unwind().await;
    assert!(message(failed).contains("1 other jobs wait to be run, 2 expected"));
}

#[tokio::test]
async fn a_bare_type_in_an_assertion_stands_for_every_job_of_its_kind() {
    let rig = Rig::new().await;
    assert_not_enqueued!(&rig.pool, Probe);
    let _ = rig.enqueue(probe("a")).await;
    assert_enqueued!(&rig.pool, Probe);
    assert_not_enqueued!(&rig.pool, crate::support::Other);
    let wanted = probe("a");
    assert_enqueued!(&rig.pool, (wanted));
    let failed = AssertUnwindSafe(async { assert_not_enqueued!(&rig.pool, Probe) }).catch_unwind().await;
    assert!(message(failed).contains("a probe job with any args waits to be run\none job waits:"));
    let failed = AssertUnwindSafe(async { assert_enqueued!(&rig.pool, Other) }).catch_unwind().await;
    assert!(message(failed).contains("no other job with any args waits to be run"));
}

#[tokio::test]
async fn a_drain_says_what_it_has_left_and_why() {
    let rig = Rig::new().await;
    let client = rig.client().register(obedient).build().unwrap();
    let unknown = rig.enqueue(Other { number: 1 }).await;
    let later = rig.enqueue(NewJob::new(&probe("later")).run_in(HOUR)).await;
    let elsewhere = rig.enqueue(NewJob::new(&probe("elsewhere")).queue("images")).await;
    let _ = rig.enqueue(probe("done")).await;
    let drained = testing::drain(&client, "default").await.unwrap();
    let left: Vec<_> = drained.left.iter().map(|job| (job.job_id.get(), job.because)).collect();
    assert!(matches!(
        left[..],
        [(a, LeftBecause::NoHandler), (b, LeftBecause::NotDue { .. }), (c, LeftBecause::OtherQueue)]
            if (a, b, c) == (unknown, later, elsewhere)
    ));
    assert!(client.pause_queue("images").await.unwrap());
    let drained = testing::drain(&client, "images").await.unwrap();
    assert!(drained.is_empty());
    let shown = format!("{drained:?}");
    assert!(shown.contains(r#"kind: "probe", queue: "images", because: QueuePaused"#), "{shown}");
    let mut tx = rig.pool.begin().await.unwrap();
    let _ = awa_worker::enqueue(&mut *tx, NewJob::new(&probe("unseen")).queue("paper")).await.unwrap();
    let drained = testing::drain(&client, "paper").await.unwrap();
    assert!(drained.left.iter().all(|job| job.queue != "paper"), "{drained:?}");
}

/// Runs in a process of its own, since `#[sqlx::test]` reads `DATABASE_URL`, which other tests must not see.
#[test]
#[allow(unnameable_test_items, reason = "called by the function around it")]
fn the_kit_works_inside_sqlx_test() {
    #[sqlx::test(migrations = false)]
    async fn inside(pool: PgPool) -> Result<(), Error> {
        awa_worker::migrate(&pool).await?;
        let client = client(&pool);
        let inserted = client.enqueue(probe("done")).await?;
        assert_enqueued!(&pool, probe("done"));
        assert_eq!(testing::drain(&client, Probe::QUEUE).await?.count(JobState::Completed), 1);
        assert_eq!(client.wait(&inserted, HOUR).await.unwrap(), json!("done"));
        Ok(())
    }
    const INSIDE: &str = "AWA_INSIDE_SQLX_TEST";
    if std::env::var_os(INSIDE).is_some() {
        inside().unwrap();
        return;
    }
    let server = std::env::var(awa_storage::testing::SERVER_VARIABLE).expect("cargo xtask test sets it");
    let test = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kit::the_kit_works_inside_sqlx_test"])
        .env("DATABASE_URL", server)
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&test.stdout);
    assert!(test.status.success() && said.contains("1 passed"), "{said}");
}
