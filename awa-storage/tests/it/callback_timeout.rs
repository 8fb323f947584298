//! Callbacks that nobody answers in time: retried or failed in bounded batches, and no bad row stops the rest.

use std::time::Duration;

use awa_model::{JobId, JobState};
use awa_storage::{
    callback::{self, Answered, ExpireCursor},
    testing::TestDatabase,
};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::scene::{begin, count, poison, row, run, states, text};
use crate::waiting::{Answer, HOUR, expire, make_due, parked};

#[tokio::test]
async fn a_job_that_nobody_answers_is_tried_again_with_its_progress() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (number, callback) = parked(&pool).await;
    run(&pool, "update awa.jobs_hot set progress = '{\"percent\": 40}'").await;
    let early = expire(&pool).await;
    assert_eq!((early.jobs.len(), early.stuck.len()), (0, 0));
    let due_in = early.next_due_in.expect("one waits");
    assert!(due_in <= HOUR && due_in > HOUR - Duration::from_secs(600), "{due_in:?}");
    make_due(&pool).await;
    let expired = expire(&pool).await;
    assert_eq!(expired.jobs, [(JobId::new(number), JobState::Retryable)]);
    assert_eq!(expired.next_due_in, None);
    let after = row(&pool, number).await;
    assert_eq!((&after["attempt"], &after["progress"]), (&json!(1), &json!({ "percent": 40 })));
    assert_eq!(after["finalized_at"], Value::Null);
    let entry = &after["errors"][0];
    assert_eq!((&entry["source"], &entry["lease"], &entry["attempt"]), (&json!("rescue"), &json!(1), &json!(1)));
    assert!(
        entry["error"].as_str().expect("a text").starts_with("nobody answered the callback that it waited for by ")
    );
    let backoff =
        "select count(*) from awa.jobs where run_at - (errors -> 0 ->> 'at')::timestamptz between '2 s' and '2.5 s'";
    assert_eq!(count(&pool, backoff).await, 1);
    for answer in Answer::ALL {
        let given = answer.give(&pool, callback).await.expect("an answer");
        assert_eq!(given, Answered::Refused { job: JobId::new(number), state: JobState::Retryable });
    }
    assert_eq!(expire(&pool).await.jobs, []);
}

#[tokio::test]
async fn without_attempts_left_it_fails() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (number, _) = parked(&pool).await;
    run(&pool, "update awa.jobs_hot set max_attempts = 1").await;
    make_due(&pool).await;
    assert_eq!(expire(&pool).await.jobs, [(JobId::new(number), JobState::Failed)]);
    assert_eq!(count(&pool, "select count(*) from awa.jobs where finalized_at is not null").await, 1);
}

#[tokio::test]
async fn the_oldest_go_first_and_a_full_batch_goes_on_behind_its_last_row() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(JobId::new(parked(&pool).await.0));
    }
    // In the order of the jobs, the last one first.
    run(&pool, "update awa.callbacks set due_at = now() - job_id * interval '1 minute'").await;
    let mut cursor = ExpireCursor::default();
    let mut seen = Vec::new();
    loop {
        let expired = callback::expire(&pool, cursor, 2).await.expect("a pass");
        seen.extend(expired.jobs.iter().map(|(id, _)| *id));
        let Some(next) = expired.next else { break };
        assert_eq!(expired.next_due_in, Some(Duration::ZERO));
        cursor = next;
    }
    // Within a batch the rows are locked in the order of their ids.
    assert_eq!(seen, [ids[3], ids[4], ids[1], ids[2], ids[0]]);
}

/// A page of rows that cannot be handled must not hide what is behind it.
#[tokio::test]
async fn a_job_that_somebody_has_locked_is_passed_by() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (first, _) = parked(&pool).await;
    let (second, _) = parked(&pool).await;
    make_due(&pool).await;
    let mut user = begin(&database).await;
    run(&mut user, &format!("select from awa.jobs_hot where id = {first} for update")).await;
    let expired = expire(&pool).await;
    assert_eq!((expired.jobs, expired.stuck), (vec![(JobId::new(second), JobState::Retryable)], vec![]));
    run(&mut user, "rollback").await;
    assert_eq!(expire(&pool).await.jobs, [(JobId::new(first), JobState::Retryable)]);
}

/// A job that waits with a key which its next state needs and which it does not hold while it runs and waits.
async fn waits_without_key(pool: &PgPool, key: &str, mask: i16) -> i64 {
    let (number, _) = parked(pool).await;
    let keyed = format!(
        "update awa.jobs_hot set unique_key = decode(md5('{key}'), 'hex'), unique_states = {mask} where id = {number}"
    );
    run(pool, &keyed).await;
    number
}

async fn holder(pool: &PgPool, key: &str) {
    let holder = format!(
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('holder', decode(md5('{key}'), 'hex'), 2)"
    );
    run(pool, &holder).await;
}

/// STUCK-01, by callback timeout: scheduled, available and retryable need the key; running and waiting do not.
#[tokio::test]
async fn one_job_whose_key_another_holds_does_not_keep_fifty_from_their_timeout() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let displaced = waits_without_key(&pool, "key", 1 | 2 | 16).await;
    let spent = waits_without_key(&pool, "other", 1 | 2 | 16 | 64).await;
    run(&pool, &format!("update awa.jobs_hot set max_attempts = 1 where id = {spent}")).await;
    let free = waits_without_key(&pool, "free", 1 | 2 | 16).await;
    for _ in 0..50 {
        parked(&pool).await;
    }
    holder(&pool, "key").await;
    holder(&pool, "other").await;
    make_due(&pool).await;
    let expired = expire(&pool).await;
    assert_eq!((expired.jobs.len(), expired.stuck), (53, vec![]));
    assert_eq!(states(&pool).await, "available 2, retryable 51, failed 1, cancelled 1");
    for (job, expected) in [(displaced, "cancelled"), (spent, "failed"), (free, "retryable")] {
        assert_eq!(row(&pool, job).await["state"], expected);
    }
    for job in [displaced, spent] {
        let error = text(&pool, &format!("select errors -> -1 ->> 'error' from awa.jobs where id = {job}")).await;
        assert!(
            error.starts_with("nobody answered") && error.contains("it cannot have its unique key: job"),
            "{error}"
        );
        assert_eq!(row(&pool, job).await["errors"].as_array().map(Vec::len), Some(1));
    }
    assert!(row(&pool, spent).await["unique_key"].is_null(), "its last state would need the key");
    let held = "select count(*) from awa.job_unique_claims as claim join awa.jobs as job on job.id = claim.job_id
                 where job.kind = 'holder'";
    assert_eq!(count(&pool, held).await, 2);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 3);
}

/// I8: the transaction may still roll back, so that job waits for it; the others do not.
#[tokio::test]
async fn a_key_in_the_hand_of_an_open_transaction_delays_its_own_job_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let waits = waits_without_key(&pool, "key", 1 | 2 | 16).await;
    let (other, _) = parked(&pool).await;
    make_due(&pool).await;
    let mut user = begin(&database).await;
    run(
        &mut user,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('holder', decode(md5('key'), 'hex'), 2)",
    )
    .await;
    let expired = expire(&pool).await;
    let mut jobs = expired.jobs;
    jobs.sort();
    assert_eq!((jobs, expired.stuck), (vec![(JobId::new(other), JobState::Retryable)], vec![JobId::new(waits)]));
    run(&mut user, "commit").await;
    assert_eq!(expire(&pool).await.jobs, [(JobId::new(waits), JobState::Cancelled)]);
}

/// I6: rows that cannot be stored as retryable end failed, and the rest of the batch is as good as without them.
#[tokio::test]
async fn a_row_that_cannot_be_stored_ends_failed_and_the_rest_is_retried() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (bad, _) = parked(&pool).await;
    run(&pool, &format!("update awa.jobs_hot set metadata = '{{}}' where id = {bad}")).await;
    for _ in 0..5 {
        parked(&pool).await;
    }
    poison(&pool, "scheduled_jobs").await;
    run(
        &pool,
        "create or replace trigger poison before insert on awa.scheduled_jobs
             for each row when (new.metadata is not null) execute function public.poison()",
    )
    .await;
    make_due(&pool).await;
    let expired = expire(&pool).await;
    assert_eq!((expired.jobs.len(), expired.stuck), (6, vec![]));
    assert_eq!(states(&pool).await, "retryable 5, failed 1");
    let error = text(&pool, &format!("select errors -> -1 ->> 'error' from awa.jobs where id = {bad}")).await;
    assert!(error.ends_with("it cannot be retried: poisoned"), "{error}");
}
