//! What becomes of a job whose unique key is held: skip, replace, error; one at a time, in batches, and beside others.

use std::time::Duration;

use awa_model::{Due, Inserted, JobState, OnConflict, PreparedJob, Unique, UniqueStates};
use awa_storage::{
    Error,
    enqueue::{enqueue, enqueue_many},
    testing::TestDatabase,
};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgPool};

use crate::producing::{backend, blocked, count, job, new, queue, rows};
use crate::support::{claim, cursors};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A job of kind `work` that is like all others with the same `key`, and says which one it is.
fn keyed(key: u64, version: u64, on_conflict: OnConflict) -> PreparedJob {
    PreparedJob {
        unique: Some(Unique::until_finished().fields(["key"]).on_conflict(on_conflict)),
        ..job(&format!(r#"{{"key":{key},"version":{version}}}"#))
    }
}

fn later(job: PreparedJob) -> PreparedJob {
    PreparedJob { due: Due::In(HOUR), ..job }
}

/// The only row, without what a move may change and what it shall change.
fn rest(row: &Value) -> Value {
    let mut row = row.clone();
    let columns = row.as_object_mut().expect("a row");
    for changing in ["args", "run_at", "state", "seq", "segment", "table"] {
        columns.remove(changing);
    }
    row
}

async fn only_row(pool: &PgPool) -> Value {
    let rows = rows(pool).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows[0].clone()
}

#[tokio::test]
async fn replace_changes_args_due_time_and_place_of_a_waiting_job_and_nothing_else() {
    let cases = [
        (false, false, "available", "awa.jobs_hot_0"),
        (false, true, "scheduled", "awa.scheduled_jobs"),
        (true, false, "available", "awa.jobs_hot_0"),
        (true, true, "scheduled", "awa.scheduled_jobs"),
    ];
    for (was_later, is_later, state, table) in cases {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        let first = PreparedJob {
            queue: queue("images"),
            max_attempts: 3,
            tags: vec!["kept".to_owned()],
            metadata: Some(json!({ "kept": true })),
            ..keyed(1, 1, OnConflict::Skip)
        };
        let first = if was_later { later(first) } else { first };
        let id = new(enqueue(&pool, &first).await.expect("enqueued"));
        let before = only_row(&pool).await;
        let second = keyed(1, 2, OnConflict::Replace);
        let second = if is_later { later(second) } else { second };
        assert_eq!(enqueue(&pool, &second).await.expect("enqueued"), Inserted::Replaced(id));
        let after = only_row(&pool).await;
        assert_eq!(rest(&after), rest(&before));
        assert_eq!((&after["state"], &after["table"]), (&json!(state), &json!(table)));
        assert_eq!(after["args"], json!({ "key": 1, "version": 2 }));
        assert_ne!(after["run_at"], before["run_at"]);
        assert_eq!(count(&pool, "awa.job_unique_claims").await, 1);
    }
}

#[tokio::test]
async fn a_job_between_two_attempts_stays_one_when_it_is_replaced() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = new(enqueue(&pool, &later(keyed(1, 1, OnConflict::Skip))).await.expect("enqueued"));
    sqlx::query("update awa.scheduled_jobs set state = 'retryable', attempt = 4, run_lease = 7, errors = '[1]'")
        .execute(&pool)
        .await
        .expect("a retryable job");
    let before = only_row(&pool).await;
    assert_eq!(enqueue(&pool, &keyed(1, 2, OnConflict::Replace)).await.expect("enqueued"), Inserted::Replaced(id));
    let after = only_row(&pool).await;
    assert_eq!(rest(&after), rest(&before));
    assert_eq!((&after["state"], &after["args"]["version"]), (&json!("retryable"), &json!(2)));
    assert_ne!(after["run_at"], before["run_at"]);
}

#[tokio::test]
async fn a_running_job_is_not_replaced_nor_locked() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = new(enqueue(&pool, &keyed(1, 1, OnConflict::Skip)).await.expect("enqueued"));
    sqlx::query("update awa.jobs_hot set state = 'running'").execute(&pool).await.expect("the edge is allowed");
    let before = only_row(&pool).await;
    let mut connection = database.connect().await;
    let mut tx = connection.begin().await.expect("the server answers");
    let answer = enqueue(&mut *tx, &keyed(1, 2, OnConflict::Replace)).await.expect("enqueued");
    assert_eq!(answer, Inserted::Duplicate(id));
    // The transaction is still open: its worker could not beat if the row were locked.
    sqlx::query("select from awa.jobs_hot where id = $1 for update nowait")
        .bind(id)
        .fetch_one(&pool)
        .await
        .expect("nobody has it locked");
    tx.commit().await.expect("the server answers");
    assert_eq!(only_row(&pool).await, before);
}

#[tokio::test]
async fn error_names_the_holder_and_writes_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = new(enqueue(&pool, &keyed(1, 1, OnConflict::Error)).await.expect("enqueued"));
    let before = only_row(&pool).await;
    let one = enqueue(&pool, &keyed(1, 2, OnConflict::Error)).await.expect_err("a conflict");
    assert!(matches!(one, Error::Duplicate { holder } if holder == id) && !one.is_transient(), "{one}");
    assert_eq!(one.to_string(), format!("job {id} holds the unique key"));
    let batch =
        [job("0"), keyed(1, 3, OnConflict::Replace), keyed(2, 1, OnConflict::Skip), keyed(1, 4, OnConflict::Error)];
    let many = enqueue_many(&pool, &batch).await.expect_err("a conflict");
    assert!(matches!(many, Error::Duplicate { holder } if holder == id), "{many}");
    assert_eq!(only_row(&pool).await, before);
    assert_eq!(count(&pool, "awa.job_unique_claims").await, 1);
}

/// A job of the same call is seen by nobody: its place names it, not its id.
#[tokio::test]
async fn error_in_a_batch_says_which_job_and_who_is_in_its_way() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let refused = async |jobs: &[PreparedJob]| enqueue_many(&pool, jobs).await.expect_err("a conflict");
    let twice = [job("0"), keyed(1, 1, OnConflict::Skip), keyed(1, 2, OnConflict::Error)];
    let error = refused(&twice).await;
    assert!(matches!(error, Error::DuplicateInCall { index: 2, earlier: 1 }), "{error}");
    assert_eq!(error.to_string(), "jobs[2]: jobs[1] of the same call holds the unique key");
    assert_eq!(rows(&pool).await, Vec::<Value>::new());
    let holder = new(enqueue(&pool, &twice[1]).await.expect("enqueued"));
    let error = refused(&[job("0"), keyed(1, 2, OnConflict::Error)]).await;
    assert!(matches!(error, Error::Duplicate { holder: named } if named == holder), "{error}");
    let sql = r#"select from awa.enqueue_many('[{"kind": "work"}, {"kind": "work", "args": {"key": 1}, "on_conflict": "error",
                 "unique_by": {"args": ["key"]}}]')"#;
    let error = sqlx::raw_sql(sql).execute(&pool).await.expect_err("a conflict").to_string();
    assert!(error.contains(&format!("jobs[1]: job {holder} holds the unique key")), "{error}");
}

#[tokio::test]
async fn each_job_of_a_batch_follows_its_own_policy() {
    let (skip, replace) = (OnConflict::Skip, OnConflict::Replace);
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held = new(enqueue(&pool, &keyed(1, 1, skip)).await.expect("enqueued"));
    let batch = [
        keyed(3, 1, replace),
        keyed(1, 2, skip),
        keyed(2, 1, skip),
        later(keyed(1, 3, replace)),
        later(keyed(2, 2, replace)),
        keyed(2, 3, skip),
        keyed(1, 4, skip),
        job(r#"{"key":3}"#),
    ];
    let answers = enqueue_many(&pool, &batch).await.expect("enqueued");
    let (three, two) = (new(answers[0]), new(answers[2]));
    let (duplicate, replaced) = (Inserted::Duplicate, Inserted::Replaced);
    assert_eq!(answers[1..2], [duplicate(held)]);
    assert_eq!(answers[3..7], [replaced(held), replaced(two), duplicate(two), duplicate(held)]);
    let rows = rows(&pool).await;
    let found: Vec<_> = rows.iter().map(|row| (row["id"].as_i64(), &row["state"], &row["args"]["version"])).collect();
    assert_eq!(
        found,
        [
            (Some(held.get()), &json!("scheduled"), &json!(3)),
            (Some(three.get()), &json!("available"), &json!(1)),
            (Some(two.get()), &json!("scheduled"), &json!(2)),
            (Some(new(answers[7]).get()), &json!("available"), &Value::Null),
        ]
    );
    assert_eq!(count(&pool, "awa.job_unique_claims").await, 3);
}

#[tokio::test]
async fn a_job_given_a_state_outside_of_its_rule_gives_its_key_back() {
    let rule = Unique::until_finished().fields(["key"]).on_conflict(OnConflict::Replace);
    let only = |state| PreparedJob {
        unique: Some(rule.clone().states(UniqueStates::of(&[state]))),
        ..keyed(1, 1, OnConflict::Replace)
    };
    let (due, deferred) = (only(JobState::Available), later(only(JobState::Scheduled)));
    for one_call in [true, false] {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        let answers = if one_call {
            enqueue_many(&pool, &[due.clone(), deferred.clone()]).await.expect("enqueued")
        } else {
            vec![enqueue(&pool, &due).await.expect("enqueued"), enqueue(&pool, &deferred).await.expect("enqueued")]
        };
        assert_eq!(answers[1], Inserted::Replaced(new(answers[0])));
        // I4: it is scheduled now, and holds its key only while it is available.
        assert_eq!(only_row(&pool).await["state"], json!("scheduled"));
        assert_eq!(count(&pool, "awa.job_unique_claims").await, 0);
        assert!(enqueue(&pool, &due).await.expect("enqueued").is_new());
    }
}

#[tokio::test]
async fn a_replaced_job_is_claimed_once_with_its_new_args() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let rename = |mut job: PreparedJob| {
        job.kind = crate::support::kind();
        job
    };
    let _ = enqueue(&pool, &rename(keyed(1, 1, OnConflict::Skip))).await.expect("enqueued");
    for version in 2..5 {
        let answer = enqueue(&pool, &rename(keyed(1, version, OnConflict::Replace))).await.expect("enqueued");
        assert!(matches!(answer, Inserted::Replaced(_)), "{answer:?}");
    }
    let cursors = cursors(&pool).await;
    let claimed = claim(&cursors, &pool, 10).await;
    assert_eq!(claimed.len(), 1);
    assert!(claim(&cursors, &pool, 10).await.is_empty());
}

/// One transaction holds the key in some way and stays open; a replace waits for it. Returns what the replace answered.
async fn replace_behind(first: &str, commits: bool) -> (Inserted, Value) {
    let database = TestDatabase::new().await;
    let (pool, mut holder, mut second) = (database.pool(), database.connect().await, database.connect().await);
    let waiting = backend(&mut second).await;
    let _ = enqueue(&pool, &keyed(1, 1, OnConflict::Skip)).await.expect("enqueued");
    let mut tx = holder.begin().await.expect("the server answers");
    sqlx::query(sqlx::AssertSqlSafe(first.to_owned())).execute(&mut *tx).await.expect(first);
    let answer = tokio::spawn(async move { enqueue(&mut second, &keyed(1, 2, OnConflict::Replace)).await });
    blocked(&pool, waiting).await;
    if commits {
        tx.commit().await.expect("the server answers");
    } else {
        tx.rollback().await.expect("the server answers");
    }
    let answer = answer.await.expect("no panic").expect("enqueued");
    (answer, only_row(&pool).await)
}

#[tokio::test]
async fn replace_waits_for_a_claim_and_then_leaves_the_running_job_alone() {
    let claim = "update awa.jobs_hot set state = 'running'";
    let (answer, row) = replace_behind(claim, true).await;
    assert!(matches!(answer, Inserted::Duplicate(_)), "{answer:?}");
    assert_eq!((&row["state"], &row["args"]["version"]), (&json!("running"), &json!(1)));
    let (answer, row) = replace_behind(claim, false).await;
    assert!(matches!(answer, Inserted::Replaced(_)), "{answer:?}");
    assert_eq!((&row["state"], &row["args"]["version"]), (&json!("available"), &json!(2)));
}

#[tokio::test]
async fn replace_waits_for_a_deletion_and_then_adds_the_job() {
    let (answer, row) = replace_behind("delete from awa.jobs_hot", true).await;
    assert!(answer.is_new());
    assert_eq!((row["id"].as_i64(), &row["args"]["version"]), (Some(answer.id().get()), &json!(2)));
}
