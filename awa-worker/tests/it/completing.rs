//! Jobs that complete in their handler's own transaction: its effects and the end of the job, both or neither.

use std::time::Duration;

use awa_worker::{Error, HandlerExt as _, JobContext, JobError, Outcome, RetryPolicy};
use serde_json::{Value, json};
use sqlx::{PgPool, Postgres, Transaction};

use crate::leases::rescue_all;
use crate::support::{Gate, Probe, Rig, Row, drain, events, probe, soon, until};

type Tx = Transaction<'static, Postgres>;

/// Begins the handler's transaction, with an effect in it.
async fn effect(pool: &PgPool) -> Result<Tx, sqlx::Error> {
    let mut tx = pool.begin().await?;
    sqlx::query("insert into public.effects default values").execute(&mut *tx).await?;
    Ok(tx)
}

async fn rig() -> Rig {
    let rig = Rig::new().await;
    rig.execute("create table public.effects (number bigserial)").await;
    rig
}

/// Runs one job with this handler until its first attempt has ended and its state is `state`.
async fn run<Running>(
    rig: &Rig,
    state: &str,
    handler: impl Fn(JobContext, PgPool) -> Running + Send + Sync + 'static,
) -> Row
where
    Running: Future<Output = Result<Outcome<Value>, JobError>> + Send + 'static,
{
    let pool = rig.pool.clone();
    let handler = move |_: Probe, context: JobContext| handler(context, pool.clone());
    let handler = handler.with_retry(RetryPolicy::fixed(Duration::ZERO));
    // Seldom enough that a rescue in the handler does not pass its own row by, which a beat has locked.
    let client = rig.client().heartbeat_interval(Duration::from_secs(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let row = rig.state(id, state).await;
    drain(&running).await;
    assert_eq!(rig.row(id).await, row, "what comes after the end changes nothing");
    row
}

async fn effects(rig: &Rig) -> i64 {
    rig.count("select count(*) from public.effects").await
}

#[tokio::test]
async fn effect_and_completion_are_committed_together() {
    let rig = rig().await;
    let row = run(&rig, "completed", async |context: JobContext, pool: PgPool| {
        context.progress().set(90, "nearly")?;
        let mut tx = effect(&pool).await?;
        let completed = context.complete_in(&mut *tx, json!({ "sum": 5 })).await?;
        tx.commit().await?;
        Ok(completed)
    })
    .await;
    assert_eq!((row.result, row.progress, row.errors), (Some(json!({ "sum": 5 })), None, None));
    assert_eq!((row.attempt, effects(&rig).await), (1, 1));
}

#[tokio::test]
async fn what_a_handler_does_after_its_commit_changes_nothing() {
    for end in ["error", "panic", "fatal", "snooze", "complete"] {
        let rig = rig().await;
        let row = run(&rig, "completed", move |context: JobContext, pool: PgPool| async move {
            let mut tx = effect(&pool).await?;
            let _: Outcome<Value> = context.complete_in(&mut *tx, json!("first")).await?;
            tx.commit().await?;
            match end {
                "error" => Err("too late".into()),
                "panic" => panic!("too late"),
                "fatal" => Err(JobError::fatal("too late")),
                "snooze" => Ok(Outcome::snooze(Duration::from_secs(1))),
                _ => Ok(Outcome::complete_with(json!("second"))),
            }
        })
        .await;
        assert_eq!((row.result, row.errors, row.attempt), (Some(json!("first")), None, 1), "{end}");
        assert_eq!(effects(&rig).await, 1, "{end}");
    }
}

#[tokio::test]
async fn transaction_that_is_not_committed_is_a_failed_attempt() {
    let rig = rig().await;
    let row = run(&rig, "retryable", async |context: JobContext, pool: PgPool| {
        context.set_checkpoint("kept", &1)?;
        let mut tx = effect(&pool).await?;
        let completed = context.complete_in(&mut *tx, json!(1)).await?;
        tx.rollback().await?;
        Ok(completed)
    })
    .await;
    assert!(row.last_error().ends_with("no such transaction has committed"), "{}", row.last_error());
    assert_eq!(row.progress, Some(json!({ "metadata": { "kept": 1 } })));
    assert_eq!((row.attempt, effects(&rig).await), (1, 0));
    // Nor is the word of a handler that has not even asked.
    let row = run(&rig, "retryable", async |_: JobContext, _: PgPool| Ok(Outcome::Committed)).await;
    assert!(row.last_error().ends_with("no such transaction has committed"), "{}", row.last_error());
}

#[tokio::test]
async fn error_of_the_handler_is_the_one_that_is_recorded_when_it_rolls_back() {
    let rig = rig().await;
    let row = run(&rig, "retryable", async |context: JobContext, pool: PgPool| {
        let mut tx = effect(&pool).await?;
        let _: Outcome<Value> = context.complete_in(&mut *tx, json!(1)).await?;
        Err("the bank said no".into())
    })
    .await;
    assert_eq!((row.last_error(), effects(&rig).await), ("the bank said no", 0));
}

#[tokio::test]
async fn lost_lease_is_told_before_anything_is_committed() {
    let rig = rig().await;
    let row = run(&rig, "retryable", async |context: JobContext, pool: PgPool| {
        let mut tx = effect(&pool).await?;
        assert_eq!(rescue_all(&pool, Duration::ZERO).await, 1);
        let lost = context.complete_in(&mut *tx, json!(1)).await;
        assert!(matches!(lost, Err(Error::LeaseLost)) && context.is_cancelled());
        lost.map_err(Into::into)
    })
    .await;
    assert!(row.last_error().starts_with("rescued"), "{}", row.last_error());
    assert_eq!(effects(&rig).await, 0);
}

#[tokio::test]
async fn output_that_cannot_be_stored_is_refused_before_the_row_is_touched() {
    let rig = rig().await;
    let row = run(&rig, "retryable", async |context: JobContext, pool: PgPool| {
        let mut tx = effect(&pool).await?;
        let refused = context.complete_in(&mut *tx, json!("a\0b")).await;
        assert!(matches!(refused, Err(Error::InvalidResult(_))));
        tx.rollback().await?;
        refused.map_err(Into::into)
    })
    .await;
    assert_eq!(row.last_error(), "the result contains U+0000, which PostgreSQL cannot store");
}

/// The handler's transaction stays open over many heartbeats: nobody else suffers, and nobody takes its job.
#[tokio::test]
async fn open_transaction_holds_up_no_other_attempt_of_its_process() {
    let rig = rig().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let (passed, pool) = (gate.clone(), rig.pool.clone());
    let handler = move |job: Probe, context: JobContext| {
        let (tell, gate, pool) = (tell.clone(), passed.clone(), pool.clone());
        async move {
            if job.name == "other" {
                tell.send(()).unwrap();
                gate.passed().await;
                return Ok::<_, JobError>(Outcome::complete_with(Value::Null));
            }
            let mut tx = effect(&pool).await?;
            let completed = context.complete_in(&mut *tx, Value::Null).await?;
            tell.send(()).unwrap();
            gate.passed().await;
            tx.commit().await?;
            Ok(completed)
        }
    };
    let client = rig.client().heartbeat_interval(Duration::from_millis(250)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let locked = rig.enqueue(probe("a")).await;
    let other = rig.enqueue(probe("other")).await;
    for _ in 0..2 {
        soon("both run", told.recv()).await.unwrap();
    }
    for _ in 0..2 {
        rig.execute("update awa.jobs_hot set heartbeat_at = '2020-01-01' where args ->> 'name' = 'other'").await;
        let beaten = "select count(*) from awa.jobs where heartbeat_at > '2021-01-01'";
        until("the other beats", async || rig.count(beaten).await == 1).await;
    }
    assert_eq!(rescue_all(&rig.pool, Duration::from_secs(3600)).await, 0);
    gate.open();
    for id in [locked, other] {
        assert_eq!(rig.state(id, "completed").await.attempt, 1);
    }
    drain(&running).await;
    assert_eq!(effects(&rig).await, 1);
}

/// Without a database there is no row to complete: the rehearsal takes the handler's word.
#[tokio::test]
async fn rehearsal_of_a_handler_that_completes_its_job_itself_needs_no_row() {
    use awa_worker::testing::{self, Ended, Faults};

    let rig = rig().await;
    let pool = rig.pool.clone();
    let handler = move |_: Probe, context: JobContext| {
        let pool = pool.clone();
        async move {
            let mut tx = effect(&pool).await?;
            let completed = context.complete_in(&mut *tx, json!(1)).await?;
            tx.commit().await?;
            Ok::<_, JobError>(completed)
        }
    };
    assert_eq!(testing::run(handler.clone(), probe("a")).await.ended, Ended::Committed);
    assert_eq!(effects(&rig).await, 1);
    assert_eq!(testing::run(handler, probe("a")).faults(Faults::new().lose_lease(1)).await.ended, Ended::Discarded);
    assert_eq!(effects(&rig).await, 1);
}
