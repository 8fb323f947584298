//! RETRY cases: attempts are counted, bounded and accounted for, whatever ends them.

use std::time::Duration;

use awa_worker::{JobArgs, JobContext, JobError, NewJob, QueueConfig};
use serde_json::{Value, json};
use sqlx::Executor as _;

use crate::leases::rescue_all;
use crate::log;
use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

// RETRY-01
#[tokio::test]
async fn a_delay_of_the_handlers_own_grants_no_attempt() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        tell.send((context.attempt(), context.is_last_attempt())).unwrap();
        async { Err::<Value, _>(JobError::retryable("again").retry_after(Duration::ZERO)) }
    };
    let running = rig.client().register(handler).build().unwrap().start().await.unwrap();
    let id = rig.enqueue(NewJob::new(&probe("a")).max_attempts(2)).await;
    rig.state(id, "retryable").await;
    rig.promote().await;
    let row = rig.state(id, "failed").await;
    drain(&running).await;
    assert_eq!((row.attempt, row.run_lease), (2, 2));
    assert_eq!(row.errors.and_then(|errors| errors.as_array().map(Vec::len)), Some(2));
    assert_eq!([told.recv().await, told.recv().await, told.recv().await], [Some((1, false)), Some((2, true)), None]);
}

// RETRY-05, and the half of RETRY-06 about what 1 means
#[tokio::test]
async fn the_only_attempt_leaves_its_error_whatever_ended_it() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let passed = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let (gate, tell) = (passed.clone(), tell.clone());
        async move {
            tell.send(context.attempt()).unwrap();
            match job.name.as_str() {
                "error" => Err("went wrong")?,
                "panic" => panic!("fell over"),
                "fatal" => Err(JobError::fatal("never again"))?,
                "timeout" => context.cancelled().await,
                _ => gate.passed().await,
            }
            Err::<Value, JobError>("stopped".into())
        }
    };
    let client = rig.client().queue("default", QueueConfig::new().max_workers(10)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    for (name, expected) in [
        ("error", "went wrong"),
        ("panic", "fell over"),
        ("fatal", "never again"),
        ("timeout", "timed out after 50ms"),
        ("rescue", "sign of life"),
    ] {
        let mut job = NewJob::new(&probe(name)).max_attempts(1);
        if name == "timeout" {
            job = job.timeout(Duration::from_millis(50));
        }
        let id = rig.enqueue(job).await;
        assert_eq!(soon("start", told.recv()).await, Some(1), "{name}");
        if name == "rescue" {
            until("rescue", async || rescue_all(&rig.pool, Duration::ZERO).await == 1).await;
        }
        let row = rig.state(id, "failed").await;
        assert!(row.last_error().contains(expected), "{name}: {:?}", row.last_error());
        assert_eq!(row.attempt, 1, "{name}");
        let errors = row.errors.unwrap();
        assert!(errors[0]["at"].is_string() && errors[0]["attempt"] == json!(1), "{name}: {errors}");
        assert_eq!(errors.as_array().map(Vec::len), Some(1), "{name}");
    }
    gate.open();
    drain(&running).await;
}

// RETRY-07
#[tokio::test]
async fn jobs_that_have_used_up_their_attempts_fail_and_stop_no_other() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |job: Probe| {
        tell.send(job.name).unwrap();
        async { Ok::<_, JobError>(Value::Null) }
    };
    rig.pool
        .execute(
            r#"insert into awa.jobs_hot_0 (id, kind, args, attempt, max_attempts) values
               (101, 'probe', '{"name": "at max"}', 25, 25),
               (102, 'probe', '{"name": "beyond"}', 300, 25),
               (103, 'probe', '{"name": "far beyond"}', 32767, 1000),
               (104, 'probe', '{"name": "below nothing"}', -32768, 1)"#,
        )
        .await
        .unwrap();
    awa_worker::enqueue_many(&rig.pool, (0..100).map(|_| probe("good"))).await.unwrap();
    let running = rig.client().register(handler).build().unwrap().start().await.unwrap();
    for (id, error) in [(101, "all 25 attempts"), (102, "all 25 attempts"), (103, "all 1000 attempts")] {
        let row = rig.state(id, "failed").await;
        assert!(row.last_error().starts_with(error), "{id}: {:?}", row.last_error());
    }
    let completed = "select count(*) from awa.jobs where state = 'completed'";
    until("all others", async || rig.count(completed).await == 101).await;
    drain(&running).await;
    let mut ran = Vec::new();
    while let Some(name) = told.recv().await {
        ran.push(name);
    }
    assert_eq!(ran.len(), 101, "{ran:?}");
    assert!(ran.iter().all(|name| name == "good" || name == "below nothing"), "{ran:?}");
}

/// The job without attempts left; no other test has one of its kind.
#[derive(Debug, serde::Serialize, serde::Deserialize, JobArgs)]
#[job(kind = "logged_to_the_end", queue = "logged", max_attempts = 2)]
struct LoggedToTheEnd;

#[tokio::test]
async fn the_log_says_that_the_last_failure_is_final_and_why() {
    log::record();
    let rig = Rig::new().await;
    let handler = async |_: LoggedToTheEnd| Err::<(), _>(JobError::from("no paper").retry_after(Duration::ZERO));
    let client = rig.client().queue("logged", QueueConfig::new()).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(LoggedToTheEnd).await;
    rig.state(id, "retryable").await;
    rig.promote().await;
    rig.state(id, "failed").await;
    drain(&running).await;
    let of_attempt = |attempt: &str| log::lines(&["an attempt failed", "logged_to_the_end", attempt]);
    let (first, second) = (of_attempt("job.attempt=1"), of_attempt("job.attempt=2"));
    assert!(first.len() == 1 && first[0].contains(r#"outcome="retry""#), "{first:?}");
    assert!(second.len() == 1 && second[0].contains(r#"outcome="fail""#), "{second:?}");
    let last = log::logged(&["a job has failed for good", "logged_to_the_end"]).await;
    assert!(last.contains("job.queue=logged") && last.contains(r#"error="no paper""#), "{last}");
}
