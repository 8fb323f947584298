//! Completion inside a transaction of the handler's own, and what settles the attempt afterwards.

use std::time::Duration;

use awa_model::JobState;
use awa_storage::{
    Claimed, Error, Guarded, Held,
    attempt::heartbeat,
    settle::{Settlement, Verdict, complete_in, settle_many},
    testing::TestDatabase,
};
use serde_json::json;
use sqlx::{PgConnection, PgPool};

use crate::scene::{age_attempts, begin, count, rescue_all, row, run, running, states, text};

async fn one(pool: &PgPool) -> Claimed {
    let (_, mut claimed) = running(pool, "noop", 1).await;
    run(pool, r#"update awa.jobs_hot set progress = '{"percent": 8}'"#).await;
    claimed.remove(0)
}

async fn complete(tx: &mut PgConnection, held: &Held) -> Guarded<()> {
    complete_in(tx, held, Some(r#"{"sum": 123456789012345678901234567890}"#)).await.expect("an answer")
}

async fn settled(pool: &PgPool, job: Claimed) -> Guarded<JobState> {
    let verdict = Verdict::Committed { after: Some(Duration::ZERO), error: "it has not committed".to_owned() };
    let settlement = [Settlement { lease: job.lease, verdict, progress: None }];
    let first = settle_many(pool, &settlement).await.expect("settled").remove(0);
    // The answer may have been lost: the same question gets the same answer.
    assert_eq!(settle_many(pool, &settlement).await.expect("settled"), [first]);
    first
}

#[tokio::test]
async fn the_job_is_completed_with_what_its_handler_wrote() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    run(&pool, "create table public.effects (job bigint)").await;
    let mut tx = begin(&database).await;
    run(&mut tx, "insert into public.effects values (1)").await;
    assert_eq!(complete(&mut tx, &job.lease.held()).await, Guarded::Applied(()));
    assert_eq!(states(&pool).await, "running 1", "not before the commit");
    run(&mut tx, "commit").await;
    let after = row(&pool, 1).await;
    assert_eq!((&after["state"], &after["progress"]), (&json!("completed"), &json!(null)));
    let sum = text(&pool, "select result ->> 'sum' from awa.jobs").await;
    assert_eq!(sum, "123456789012345678901234567890");
    assert_eq!(settled(&pool, job).await, Guarded::Applied(JobState::Completed));
    assert_eq!(row(&pool, 1).await, after);
}

#[tokio::test]
async fn what_was_rolled_back_is_a_failed_attempt_that_keeps_its_progress() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    let mut tx = begin(&database).await;
    assert_eq!(complete(&mut tx, &job.lease.held()).await, Guarded::Applied(()));
    run(&mut tx, "rollback").await;
    assert_eq!(settled(&pool, job).await, Guarded::Applied(JobState::Retryable));
    let after = row(&pool, 1).await;
    assert_eq!((&after["progress"], &after["attempt"]), (&json!({ "percent": 8 }), &json!(1)));
    assert_eq!(after["errors"][0]["error"], "it has not committed");
}

#[tokio::test]
async fn the_last_attempt_that_was_rolled_back_fails_the_job() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    run(&pool, "update awa.jobs_hot set max_attempts = attempt").await;
    assert_eq!(settled(&pool, job).await, Guarded::Applied(JobState::Failed));
}

#[tokio::test]
async fn a_lost_lease_completes_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    run(&pool, "delete from awa.workers").await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 1);
    let before = row(&pool, 1).await;
    let mut tx = begin(&database).await;
    assert_eq!(complete(&mut tx, &job.lease.held()).await, Guarded::Lost);
    run(&mut tx, "commit").await;
    assert_eq!(settled(&pool, job).await, Guarded::Lost);
    assert_eq!(row(&pool, 1).await, before);
}

#[tokio::test]
async fn a_row_that_has_moved_is_completed_where_it_is_and_may_be_asked_for_twice() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    run(&pool, "update awa.ring set current = current + 1").await;
    run(&pool, "select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0))").await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_0").await, 0);
    let mut tx = begin(&database).await;
    for _ in 0..2 {
        assert_eq!(complete(&mut tx, &job.lease.held()).await, Guarded::Applied(()));
    }
    run(&mut tx, "commit").await;
    assert_eq!(settled(&pool, job).await, Guarded::Applied(JobState::Completed));
}

/// The answer to a commit may get lost, and the handler tries its transaction again: the effect must not happen twice.
#[tokio::test]
async fn an_attempt_completes_its_job_in_one_transaction_and_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    let mut first = begin(&database).await;
    // In savepoints, too: rolled back to, it was not asked for.
    run(&mut first, "savepoint one").await;
    assert_eq!(complete(&mut first, &job.lease.held()).await, Guarded::Applied(()));
    run(&mut first, "rollback to one").await;
    for _ in 0..2 {
        run(&mut first, "savepoint another").await;
        assert_eq!(complete(&mut first, &job.lease.held()).await, Guarded::Applied(()));
        run(&mut first, "release another").await;
    }
    // One that began before that commit and waits for it, and one that begins after it.
    let mut second = begin(&database).await;
    let waiter = text(&mut second, "select pg_backend_pid()::text").await;
    let held = job.lease.held();
    let waiting = tokio::spawn(async move { complete(&mut second, &held).await });
    let waits = format!("select count(*) from pg_stat_activity where pid = {waiter} and wait_event_type = 'Lock'");
    while text(&pool, &format!("select ({waits})::text")).await == "0" {}
    run(&mut first, "commit").await;
    assert_eq!(waiting.await.unwrap(), Guarded::Lost);
    let before = row(&pool, 1).await;
    let mut third = begin(&database).await;
    for _ in 0..2 {
        assert_eq!(complete(&mut third, &job.lease.held()).await, Guarded::Lost);
    }
    run(&mut third, "commit").await;
    assert_eq!(row(&pool, 1).await, before);
    assert_eq!(settled(&pool, job).await, Guarded::Applied(JobState::Completed));
}

#[tokio::test]
async fn a_key_that_another_job_holds_is_given_up_and_the_transaction_goes_on() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    // Available and completed: not held while it runs.
    let unique =
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('KIND', decode(md5('key'), 'hex'), 2 | 32)";
    run(&pool, &unique.replace("KIND", "noop")).await;
    let worker = crate::scene::registered(&pool).await;
    let job = crate::scene::claim(&pool, worker, "noop", 1).await.remove(0);
    run(&pool, &unique.replace("KIND", "holder")).await;
    let mut tx = begin(&database).await;
    run(&mut tx, "create table public.effects ()").await;
    assert_eq!(complete(&mut tx, &job.lease.held()).await, Guarded::Applied(()));
    run(&mut tx, "commit").await;
    assert_eq!(states(&pool).await, "available 1, completed 1");
    let error = text(&pool, "select errors -> -1 ->> 'error' from awa.jobs where id = 1").await;
    assert!(error.starts_with("it cannot have its unique key: "), "{error}");
    assert_eq!(count(&pool, "select count(*) from public.effects").await, 0);
}

/// The row is locked by a transaction that stays open: others live on, and nobody takes the job away.
#[tokio::test]
async fn an_open_transaction_holds_up_nobody_else() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 3).await;
    let held: Vec<_> = jobs.iter().map(|job| job.lease.held()).collect();
    let mut tx = begin(&database).await;
    assert_eq!(complete(&mut tx, &held[1]).await, Guarded::Applied(()));
    let refused = heartbeat(&pool, &held).await.expect_err("it waits for the row in vain");
    assert!(refused.is_contention(), "{refused}");
    assert_eq!(heartbeat(&pool, &[held[0], held[2]]).await.expect("beats"), []);
    run(&pool, "delete from awa.workers").await;
    age_attempts_of_others(&pool, held[1].job_id().get()).await;
    let rescued: Vec<_> = rescue_all(&pool).await.jobs.iter().map(|job| job.job_id).collect();
    assert_eq!(rescued, [held[0].job_id(), held[2].job_id()]);
    run(&mut tx, "rollback").await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), 1, "rolled back, it is an attempt like any other");
}

async fn age_attempts_of_others(pool: &PgPool, id: i64) {
    run(pool, &format!("update awa.jobs_hot set heartbeat_at = '2020-01-01' where state = 'running' and id <> {id}"))
        .await;
}

#[tokio::test]
async fn a_snapshot_older_than_a_heartbeat_is_refused_in_a_typed_way() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = one(&pool).await;
    let mut tx = database.connect().await;
    run(&mut tx, "begin isolation level repeatable read").await;
    count(&mut tx, "select count(*) from awa.jobs").await;
    age_attempts(&pool, "1 second").await;
    let refused = complete_in(&mut tx, &job.lease.held(), None).await.expect_err("a newer row");
    assert!(refused.is_transient() && matches!(refused, Error::Database(_)), "{refused:?}");
}
