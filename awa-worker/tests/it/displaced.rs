//! STUCK-03: jobs whose unique key another one takes while they run.

use std::time::Duration;

use awa_worker::{JobError, Outcome, QueueConfig};
use serde_json::Value;

use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

const MINUTE: Duration = Duration::from_secs(60);

/// A job whose key is held while it waits and not while it runs.
async fn unique(db: impl sqlx::PgExecutor<'_>, name: &str, queue: &str) -> i64 {
    sqlx::query_scalar(
        "insert into awa.jobs_hot (kind, queue, args, unique_key, unique_states)
         values ('probe', $2, jsonb_build_object('name', $1::text), decode(md5($1), 'hex'), 1 | 2 | 16) returning id",
    )
    .bind(name)
    .bind(queue)
    .fetch_one(db)
    .await
    .unwrap()
}

/// Does what the name says.
async fn act(job: Probe) -> Result<Outcome<Value>, JobError> {
    match job.name.as_str() {
        "snooze" => Ok(Outcome::snooze(MINUTE)),
        "later" => Err(JobError::retryable("busy").retry_after(MINUTE)),
        "panic" => panic!("no"),
        "done" => Ok(Outcome::Complete(Value::Null)),
        _ => Err("down")?,
    }
}

#[tokio::test]
async fn a_job_whose_key_was_taken_ends_in_one_step_and_the_worker_carries_on() {
    let rig = Rig::new().await;
    let (gate, (tell, mut told)) = (Gate::new(), events());
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let (gate, tell) = (passed.clone(), tell.clone());
        async move {
            tell.send(()).unwrap();
            gate.passed().await;
            act(job).await
        }
    };
    let client = rig.client().queue("default", QueueConfig::new().max_workers(50)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let mut displaced = Vec::new();
    for name in ["retry", "snooze", "later", "panic"] {
        displaced.push(unique(&rig.pool, name, "default").await);
    }
    for number in 0..20 {
        rig.enqueue(probe(&number.to_string())).await;
    }
    for _ in 0..24 {
        soon("start", told.recv()).await.unwrap();
    }
    let mut holders = Vec::new();
    for name in ["retry", "snooze", "later", "panic"] {
        holders.push(unique(&rig.pool, name, "elsewhere").await);
    }
    gate.open();
    for (id, holder) in displaced.into_iter().zip(holders) {
        let row = rig.state(id, "cancelled").await;
        let expected = format!("it cannot have its unique key: job {id} needs a unique key that job {holder} holds");
        assert!(row.last_error().ends_with(&expected), "{}", row.last_error());
        assert_eq!((row.attempt, row.run_lease), (1, 1));
    }
    let others = "select count(*) from awa.jobs where state = 'retryable' and attempt = 1";
    until("the others", async || rig.count(others).await == 20).await;
    let next = rig.enqueue(probe("done")).await;
    rig.state(next, "completed").await;
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'running'").await, 0);
    assert_eq!(drain(&running).await.left_to_rescue, 0);
}

// I8
#[tokio::test]
async fn keys_in_the_hand_of_an_open_transaction_hold_up_no_other_job() {
    let rig = Rig::new().await;
    let (gate, (tell, mut told)) = (Gate::new(), events());
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let (gate, tell) = (passed.clone(), tell.clone());
        async move {
            tell.send(()).unwrap();
            gate.passed().await;
            act(job).await
        }
    };
    let client = rig.client().queue("default", QueueConfig::new().max_workers(100)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    for number in 0..30 {
        unique(&rig.pool, &format!("key {number}"), "default").await;
    }
    for number in 0..20 {
        rig.enqueue(probe(&number.to_string())).await;
    }
    for _ in 0..50 {
        soon("start", told.recv()).await.unwrap();
    }
    let mut user = rig.pool.begin().await.unwrap();
    for number in 0..30 {
        unique(&mut *user, &format!("key {number}"), "elsewhere").await;
    }
    gate.open();
    let others = "select count(*) from awa.jobs where state = 'retryable'";
    until("the others", async || rig.count(others).await == 20).await;
    // The worker goes on claiming, running and settling meanwhile.
    for _ in 0..20 {
        let next = rig.enqueue(probe("done")).await;
        rig.state(next, "completed").await;
    }
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'running'").await, 30);
    user.rollback().await.unwrap();
    until("the rest", async || rig.count(others).await == 50).await;
    assert_eq!(drain(&running).await.left_to_rescue, 0);
}
