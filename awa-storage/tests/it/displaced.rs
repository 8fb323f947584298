//! STUCK-03: an attempt that needs, for its next state, a unique key that it does not hold while it runs. Another job may
//! have it by then. The attempt ends in one step, and nobody else notices.

use std::time::Duration;

use awa_model::JobState;
use awa_storage::{
    Claimed, Guarded,
    settle::{Completion, Settlement, Verdict, complete_alone, complete_many, settle_alone, settle_batch, settle_many},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{begin, claim, count, registered, row, run, running, states, text};

/// The bits of the states, as `awa.state_bit` has them.
const AVAILABLE: i16 = 2;
const NOT_RUNNING: i16 = 1 | AVAILABLE | 16;

async fn waiting(db: impl sqlx::PgExecutor<'_>, kind: &str, key: &str, mask: i16) {
    let statement = format!(
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('{kind}', decode(md5('{key}'), 'hex'), {mask})"
    );
    run(db, &statement).await;
}

/// An attempt whose key another job, with the id one higher, has taken since.
async fn displaced(pool: &PgPool, key: &str, mask: i16) -> Claimed {
    waiting(pool, "unique", key, mask).await;
    let worker = registered(pool).await;
    let attempt = claim(pool, worker, "unique", 1).await.remove(0);
    waiting(pool, "holder", key, mask | 4).await;
    attempt
}

fn settlement(job: Claimed, verdict: Verdict) -> Settlement {
    Settlement { lease: job.lease, verdict, progress: Some(r#"{"percent": 3}"#.to_owned()) }
}

fn retry(error: &str) -> Verdict {
    Verdict::Retry { after: None, error: error.to_owned() }
}

async fn last_error(pool: &PgPool, id: i64) -> String {
    text(pool, &format!("select errors -> -1 ->> 'error' from awa.jobs where id = {id}")).await
}

#[tokio::test]
async fn a_retry_a_snooze_and_a_release_without_their_key_end_cancelled_and_name_the_holder() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let verdicts = [
        (retry("down"), "down; "),
        (Verdict::Retry { after: Some(Duration::from_secs(9)), error: "busy".to_owned() }, "busy; "),
        (Verdict::Snooze { after: Duration::from_secs(9) }, ""),
        (Verdict::Release, ""),
    ];
    let mut batch = Vec::new();
    let mut begins = Vec::new();
    for (place, (verdict, begin)) in verdicts.into_iter().enumerate() {
        batch.push(settlement(displaced(&pool, &place.to_string(), NOT_RUNNING).await, verdict));
        begins.push(begin);
    }
    let (_, others) = running(&pool, "noop", 20).await;
    batch.extend(others.into_iter().map(|job| settlement(job, retry("again"))));
    let answers = settle_batch(&pool, &batch).await.expect("the others are settled");
    assert_eq!(answers[..4], [None; 4]);
    assert_eq!(answers[4..], [Some(Guarded::Applied(JobState::Retryable)); 20]);
    assert_eq!(states(&pool).await, "available 4, running 4, retryable 20");
    // Twice: the answer of the first may have been lost.
    for _ in 0..2 {
        for one in &batch[..4] {
            let answer = settle_alone(&pool, one).await.expect("settled");
            assert_eq!(answer, Guarded::Applied(JobState::Cancelled), "{:?}", one.verdict);
        }
    }
    for (one, begin) in batch.iter().zip(begins) {
        let id = one.lease.job_id().get();
        let expected =
            format!("{begin}it cannot have its unique key: job {id} needs a unique key that job {} holds", id + 1);
        assert_eq!(last_error(&pool, id).await, expected);
        let after = row(&pool, id).await;
        assert_eq!(after["errors"].as_array().map(Vec::len), Some(1));
        assert_eq!((&after["progress"]["percent"], &after["attempt"]), (&3.into(), &1.into()));
    }
    assert_eq!(states(&pool).await, "available 4, retryable 20, cancelled 4");
    let held = "select count(*) from awa.job_unique_claims as claim join awa.jobs as job on job.id = claim.job_id
                 where job.kind = 'holder'";
    assert_eq!(count(&pool, held).await, 4);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 4);
}

#[tokio::test]
async fn a_last_attempt_and_a_fatal_error_end_failed_without_their_key() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cases = [
        (retry("spent"), 64, JobState::Failed),
        (Verdict::Fail { error: "fatal".to_owned() }, 64, JobState::Failed),
        (Verdict::Cancel { reason: "off".to_owned() }, 128, JobState::Cancelled),
    ];
    for (place, (verdict, bit, expected)) in cases.into_iter().enumerate() {
        let job = displaced(&pool, &place.to_string(), NOT_RUNNING | bit).await;
        let id = job.lease.job_id().get();
        run(&pool, &format!("update awa.jobs_hot set max_attempts = 1 where id = {id}")).await;
        let batch = [settlement(job, verdict)];
        assert_eq!(settle_many(&pool, &batch).await.expect("settled"), [Guarded::Applied(expected)]);
        assert!(last_error(&pool, id).await.ends_with(&format!("that job {} holds", id + 1)));
        assert!(row(&pool, id).await["unique_key"].is_null(), "a key that another job holds is given up");
    }
}

#[tokio::test]
async fn a_key_that_is_free_is_taken_back() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = displaced(&pool, "key", NOT_RUNNING).await;
    run(&pool, "delete from awa.jobs_hot where kind = 'holder'").await;
    let id = job.lease.job_id().get();
    let batch = [settlement(job, retry("again"))];
    assert_eq!(settle_many(&pool, &batch).await.expect("settled"), [Guarded::Applied(JobState::Retryable)]);
    assert_eq!(count(&pool, "select job_id from awa.job_unique_claims").await, id);
}

/// I8: the transaction may still roll back, so the attempt waits for it; nobody else does.
#[tokio::test]
async fn a_key_in_the_hand_of_an_open_transaction_delays_its_own_attempt_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (end, expected) in [("rollback", JobState::Retryable), ("commit", JobState::Cancelled)] {
        waiting(&pool, "unique", end, NOT_RUNNING).await;
        let worker = registered(&pool).await;
        let attempt = claim(&pool, worker, "unique", 1).await.remove(0);
        let (_, others) = running(&pool, "noop", 10).await;
        let mut user = begin(&database).await;
        waiting(&mut user, "holder", end, NOT_RUNNING).await;
        let mut batch = vec![settlement(attempt, retry("again"))];
        batch.extend(others.into_iter().map(|job| settlement(job, retry("again"))));
        // A statement that waited for the key would fail here, having waited for a quarter of a second.
        let answers = settle_batch(&pool, &batch).await.expect("nobody waits");
        assert_eq!((answers[0], answers.iter().flatten().count()), (None, 10));
        let error = settle_alone(&pool, &batch[0]).await.expect_err("the key is in hand");
        assert!(error.is_contention(), "{error}");
        run(&mut user, end).await;
        assert_eq!(settle_alone(&pool, &batch[0]).await.expect("settled"), Guarded::Applied(expected));
    }
    assert_eq!(count(&pool, "select count(*) from awa.jobs where state = 'running'").await, 0);
}

#[tokio::test]
async fn a_row_that_was_moved_meanwhile_is_left_out_of_the_batch_too() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = displaced(&pool, "key", NOT_RUNNING).await;
    run(&pool, "update awa.ring set current = 1").await;
    run(&pool, "select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0 where state = 'running'))")
        .await;
    let (_, others) = running(&pool, "noop", 1).await;
    let mut batch = vec![settlement(job, retry("again"))];
    batch.extend(others.into_iter().map(|job| settlement(job, retry("again"))));
    let answers = settle_batch(&pool, &batch).await.expect("settled");
    assert_eq!(answers, [None, Some(Guarded::Applied(JobState::Retryable))]);
    let answer = settle_alone(&pool, &batch[0]).await.expect("settled");
    assert_eq!(answer, Guarded::Applied(JobState::Cancelled));
}

#[tokio::test]
async fn a_stale_lease_takes_no_key() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = displaced(&pool, "key", NOT_RUNNING).await;
    run(&pool, "delete from awa.jobs_hot where kind = 'holder'").await;
    run(&pool, "update awa.jobs_hot set run_lease = 2").await;
    let batch = [settlement(job, retry("late"))];
    assert_eq!(settle_batch(&pool, &batch).await.expect("an answer"), [Some(Guarded::Lost)]);
    assert_eq!(settle_alone(&pool, &batch[0]).await.expect("an answer"), Guarded::Lost);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0);
    assert_eq!(states(&pool).await, "running 1");
}

/// A rule that covers completed but not running jobs: the work is done, whoever has the key.
#[tokio::test]
async fn a_completion_without_its_key_stands_and_gives_the_key_up() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = displaced(&pool, "key", AVAILABLE | 32).await;
    let id = job.lease.job_id().get();
    let completion = Completion { lease: job.lease, result: Some("7".to_owned()) };
    complete_many(&pool, std::slice::from_ref(&completion)).await.expect_err("the key is taken");
    for _ in 0..2 {
        assert_eq!(complete_alone(&pool, &completion).await.expect("completed"), Guarded::Applied(()));
    }
    let after = row(&pool, id).await;
    assert_eq!((&after["state"], &after["result"]), (&"completed".into(), &7.into()));
    assert!(after["unique_key"].is_null());
    assert!(last_error(&pool, id).await.ends_with(&format!("that job {} holds", id + 1)));
}

#[tokio::test]
async fn a_long_error_text_makes_room_for_the_holder() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = displaced(&pool, "key", NOT_RUNNING).await;
    let id = job.lease.job_id().get();
    let error = "é".repeat(awa_model::limits::ERROR_BYTES_MAX / 2);
    let batch = [settlement(job, Verdict::Retry { after: None, error })];
    assert_eq!(settle_many(&pool, &batch).await.expect("settled"), [Guarded::Applied(JobState::Cancelled)]);
    let error = last_error(&pool, id).await;
    assert!(error.len() <= awa_model::limits::ERROR_BYTES_MAX && error.ends_with("holds"), "{}", error.len());
}
