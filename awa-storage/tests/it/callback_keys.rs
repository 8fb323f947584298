//! Answers to jobs whose next state needs a unique key that another job holds: the answer takes effect in one step all the
//! same, and the holder notices nothing.

use awa_model::{JobId, JobState};
use awa_storage::{callback::Answered, testing::TestDatabase};
use serde_json::json;
use sqlx::PgPool;

use crate::scene::{begin, count, row, run, text};
use crate::waiting::{Answer, opened, parked};

/// The bits of the states, as `awa.state_bit` has them.
const AVAILABLE: i16 = 2;
const COMPLETED: i16 = 32;
const FAILED: i16 = 64;
const CANCELLED: i16 = 128;

async fn keyed(pool: &PgPool, id: i64, key: &str, mask: i16) {
    let statement = format!(
        "update awa.jobs_hot set unique_key = decode(md5('{key}'), 'hex'), unique_states = {mask} where id = {id}"
    );
    run(pool, &statement).await;
}

fn holder(key: &str) -> String {
    format!(
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('holder', decode(md5('{key}'), 'hex'), 2)"
    )
}

#[tokio::test]
async fn an_answer_takes_effect_although_another_job_holds_the_key() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cases = [
        (Answer::Resume, AVAILABLE, JobState::Cancelled, true),
        (Answer::Resume, AVAILABLE | CANCELLED, JobState::Cancelled, false),
        (Answer::Complete, AVAILABLE | COMPLETED, JobState::Completed, false),
        (Answer::Fail, AVAILABLE | FAILED, JobState::Failed, false),
    ];
    for (place, (answer, mask, expected, keeps_key)) in cases.into_iter().enumerate() {
        let key = place.to_string();
        let (job, callback) = parked(&pool).await;
        keyed(&pool, job, &key, mask).await;
        run(&pool, &holder(&key)).await;
        let given = answer.give(&pool, callback).await.expect("an answer");
        assert_eq!(given, Answered::Applied { job: JobId::new(job), state: expected }, "{answer:?}");
        let after = row(&pool, job).await;
        assert_eq!(!after["unique_key"].is_null(), keeps_key, "{answer:?}");
        let error = after["errors"][0]["error"].as_str().expect("a text");
        let told = format!("it cannot have its unique key: job {job} needs a unique key that job");
        assert!(error.contains(&told), "{answer:?}: {error}");
        assert_eq!(after["errors"][0]["source"], "callback");
        if answer == Answer::Complete {
            assert_eq!(after["result"], json!({ "n": 1 }));
        }
        let again = answer.give(&pool, callback).await.expect("an answer");
        assert_eq!(again, Answered::Unchanged { job: JobId::new(job), state: expected });
    }
    let held = "select count(*) from awa.job_unique_claims as claim join awa.jobs as job on job.id = claim.job_id
                 where job.kind = 'holder'";
    assert_eq!(count(&pool, held).await, 4);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 4);
}

#[tokio::test]
async fn a_key_that_the_answer_makes_needless_is_free_and_one_that_it_needs_is_taken() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for runs in [false, true] {
        for answer in [Answer::Complete, Answer::Fail] {
            let (job, callback) = if runs {
                let (job, callback) = opened(&pool).await;
                (job.lease.job_id().get(), callback)
            } else {
                parked(&pool).await
            };
            // Every state that is not the end.
            keyed(&pool, job, "key", 31).await;
            assert_eq!(count(&pool, "select job_id from awa.job_unique_claims").await, job);
            let _ = answer.give(&pool, callback).await.expect("an answer");
            assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0, "{answer:?}");
        }
    }
    let (job, callback) = parked(&pool).await;
    keyed(&pool, job, "key", AVAILABLE).await;
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0);
    let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
    assert_eq!(count(&pool, "select job_id from awa.job_unique_claims").await, job);
}

#[tokio::test]
async fn a_key_or_a_job_in_the_hand_of_an_open_transaction_makes_the_answer_busy_and_changes_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (job, callback) = parked(&pool).await;
    keyed(&pool, job, "key", AVAILABLE).await;
    let before = row(&pool, job).await;
    for statement in [holder("key"), format!("select from awa.jobs_hot where id = {job} for update")] {
        let mut user = begin(&database).await;
        run(&mut user, &statement).await;
        assert_eq!(Answer::Resume.give(&pool, callback).await.expect("an answer"), Answered::Busy, "{statement}");
        run(&mut user, "rollback").await;
        assert_eq!(row(&pool, job).await, before);
        assert_eq!(text(&pool, "select answer from awa.callbacks").await, "");
    }
    let given = Answer::Resume.give(&pool, callback).await.expect("an answer");
    assert_eq!(given, Answered::Applied { job: JobId::new(job), state: JobState::Available });
}

#[tokio::test]
async fn a_parking_that_must_take_its_key_is_settled_alone_and_displaced_where_another_holds_it() {
    use crate::waiting::parking;
    use awa_storage::{
        Guarded,
        settle::{settle_alone, settle_batch},
    };

    let database = TestDatabase::new().await;
    let pool = database.pool();
    for (taken, answered, expected) in [
        (false, false, JobState::WaitingExternal),
        (false, true, JobState::Available),
        (true, false, JobState::Cancelled),
        (true, true, JobState::Cancelled),
    ] {
        let (job, callback) = opened(&pool).await;
        let id = job.lease.job_id().get();
        // Available and waiting need the key; running does not.
        keyed(&pool, id, "key", AVAILABLE | 8).await;
        if answered {
            let _ = Answer::Resume.give(&pool, callback).await.expect("an answer");
        }
        if taken {
            run(&pool, &holder("key")).await;
        }
        let batch = [parking(job, callback)];
        assert_eq!(settle_batch(&pool, &batch).await.expect("an answer"), [None]);
        for _ in 0..2 {
            let answer = settle_alone(&pool, &batch[0]).await.expect("settled");
            assert_eq!(answer, Guarded::Applied(expected), "taken {taken}, answered {answered}");
        }
        run(&pool, "select awa.delete_jobs(array(select id from awa.jobs))").await;
    }
}
