//! Outcomes that are hard to write down.

use std::time::Duration;

use awa_worker::{JobError, QueueConfig, RetryPolicy};
use serde_json::{Value, json};

use crate::leases::rescue_all;
use crate::support::{Gate, Other, Probe, Rig, drain, events, probe, soon, until};

/// From now on the database refuses to complete jobs with these args.
const REFUSE: &str = r#"
    create function public.refuse() returns trigger language plpgsql as $$
    begin
        raise 'this row cannot be completed';
    end $$;
    do $do$
    begin
        for segment in 0..7 loop
            execute format($t$create trigger refuse before update on awa.jobs_hot_%s for each row
                when (new.state = 'completed' and new.args = '{"name": "poison"}') execute function public.refuse()$t$, segment);
        end loop;
    end $do$"#;

// STUCK-08
#[tokio::test]
async fn outcome_that_is_refused_for_ever_is_given_up_to_rescue_and_holds_up_nobody() {
    let rig = Rig::new().await;
    rig.execute(REFUSE).await;
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(50))
        .settle_give_up_after(Duration::from_millis(500))
        .register(async |job: Probe| Ok::<Value, JobError>(json!(job.name)))
        .build()
        .unwrap();
    let mut good = Vec::new();
    for number in 0..20 {
        good.push(rig.enqueue(probe(&number.to_string())).await);
    }
    let poison = rig.enqueue(probe("poison")).await;
    let running = client.start().await.unwrap();
    for id in good {
        rig.state(id, "completed").await;
    }
    // While the process lives and beats, this attempt falls silent.
    until("rescue", async || rescue_all(&rig.pool, Duration::from_secs(1)).await == 1).await;
    let row = rig.row(poison).await;
    assert_eq!((row.state.as_str(), row.attempt), ("retryable", 1));
    assert_eq!(drain(&running).await.left_to_rescue, 0);
}

#[tokio::test]
async fn slot_is_free_again_after_an_outcome_was_given_up() {
    let rig = Rig::new().await;
    rig.execute(REFUSE).await;
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(1))
        .settle_give_up_after(Duration::from_millis(100))
        .register(async |job: Probe| Ok::<Value, JobError>(json!(job.name)))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    let poison = rig.enqueue(probe("poison")).await;
    let next = rig.enqueue(probe("next")).await;
    rig.state(next, "completed").await;
    assert_eq!(rig.row(poison).await.state, "running");
    drain(&running).await;
}

// I8: a user's open transaction, here on the very row, holds up nobody else.
#[tokio::test]
async fn row_that_somebody_has_locked_is_settled_later_and_the_others_now() {
    let rig = Rig::new().await;
    let (gate, (tell, mut told)) = (Gate::new(), events());
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let (gate, tell) = (passed.clone(), tell.clone());
        async move {
            tell.send(()).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(json!(job.name))
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let (locked, free) = (rig.enqueue(probe("locked")).await, rig.enqueue(probe("free")).await);
    for _ in 0..2 {
        soon("start", told.recv()).await.unwrap();
    }
    let mut user = rig.pool.begin().await.unwrap();
    sqlx::query("select from awa.jobs_hot where id = $1 for update").bind(locked).execute(&mut *user).await.unwrap();
    gate.open();
    rig.state(free, "completed").await;
    assert_eq!(rig.row(locked).await.state, "running");
    user.commit().await.unwrap();
    rig.state(locked, "completed").await;
    drain(&running).await;
}

// LOST-04
#[tokio::test]
async fn connections_that_break_after_a_claim_lose_no_job() {
    const JOBS: i64 = 300;
    const BREAKS: usize = 15;
    let rig = Rig::new().await;
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(20))
        .register(async |_: Other| Ok::<_, JobError>(()))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    for broken in 0..BREAKS {
        let jobs = (0..JOBS).skip(broken).step_by(BREAKS).map(|number| Other { number });
        awa_worker::enqueue_many(&rig.pool, jobs).await.unwrap();
        rig.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity
              where application_name like 'awa %' and datname = current_database()",
        )
        .await;
    }
    until("the end of all jobs", async || {
        rescue_all(&rig.pool, Duration::from_secs(1)).await;
        rig.promote().await;
        rig.count("select count(*) from awa.jobs where state = 'completed'").await == JOBS
    })
    .await;
    drain(&running).await;
    assert_eq!(rig.count("select count(*) from awa.jobs").await, JOBS);
}

#[tokio::test]
async fn delay_of_a_broken_policy_fails_the_attempt_only() {
    use awa_worker::HandlerExt as _;
    let rig = Rig::new().await;
    let handler = async |_: Probe| -> Result<Value, JobError> { Err("first")? };
    let policy = RetryPolicy::custom(|_| panic!("no delay for you"));
    let client = rig.client().register(handler.with_retry(policy)).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    assert!(rig.state(id, "retryable").await.last_error().contains("no delay for you"));
    drain(&running).await;
}
