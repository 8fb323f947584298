//! Enqueueing: where jobs go, that nothing of them is lost, and that a transaction decides.

use std::time::Duration;

use awa_model::{Due, Inserted, PreparedJob, Priority, Unique};
use awa_storage::{
    enqueue::{enqueue, enqueue_many},
    testing::TestDatabase,
};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgPool, postgres::PgPoolOptions};

use crate::producing::{count, job, new, queue, rows};

const HOUR: Duration = Duration::from_secs(60 * 60);

fn past() -> DateTime<Utc> {
    "2020-02-29T12:34:56.789012Z".parse().expect("a time")
}

fn future() -> DateTime<Utc> {
    "2999-12-31T23:59:59.999999Z".parse().expect("a time")
}

/// A job with every option set, and its row as it must be stored.
fn full(due: Due) -> (PreparedJob, Value) {
    let job = PreparedJob {
        queue: queue("images"),
        priority: Priority::new(4).expect("a priority"),
        due,
        max_attempts: 1000,
        timeout: Some(Duration::from_micros(1_500_001)),
        tags: vec!["one".to_owned(), "zwei, \"drei\" {}".to_owned(), "NULL".to_owned()],
        metadata: Some(json!({ "owner": "grüße 🦀", "n": [1, null] })),
        unique: Some(Unique::until_finished().per_queue()),
        trace_context: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ..job(r#"{"path":"/srv/ä.png","width":640}"#)
    };
    let row = json!({
        "kind": "work",
        "queue": "images",
        "priority": 4,
        "max_attempts": 1000,
        "timeout": "00:00:01.500001",
        "tags": ["one", "zwei, \"drei\" {}", "NULL"],
        "metadata": { "owner": "grüße 🦀", "n": [1, null] },
        "unique_states": 31,
        "trace_context": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "args": { "path": "/srv/ä.png", "width": 640 },
        "attempt": 0,
        "run_lease": 0,
        "snoozes": 0,
        "attempted_at": null,
        "attempted_by": null,
        "heartbeat_at": null,
        "deadline_at": null,
        "finalized_at": null,
        "progress": null,
        "result": null,
        "errors": null,
        "errors_dropped": null,
    });
    (job, row)
}

/// Takes the columns that differ from one insert to the next out of a row, and returns it with its id and due time.
fn strip(mut row: Value) -> (i64, DateTime<Utc>, Value) {
    let columns = row.as_object_mut().expect("a row");
    let id = columns.remove("id").and_then(|id| id.as_i64()).expect("an id");
    let run_at = columns.remove("run_at").expect("a due time");
    let key = columns.remove("unique_key").expect("a column");
    assert_eq!(key.as_str().map(str::len), Some("\\x".len() + 32), "a key of 16 bytes");
    for other in ["seq", "segment", "created_at"] {
        columns.remove(other);
    }
    (id, run_at.as_str().expect("a time").parse().expect("a time"), row)
}

#[tokio::test]
async fn every_option_is_stored_in_either_plane_by_either_function() {
    for (due, table, state) in
        [(Due::At(past()), "awa.jobs_hot_0", "available"), (Due::At(future()), "awa.scheduled_jobs", "scheduled")]
    {
        let (job, mut expected) = full(due);
        expected["table"] = json!(table);
        expected["state"] = json!(state);
        for many in [false, true] {
            let database = TestDatabase::new().await;
            let pool = database.pool();
            let id = if many {
                new(enqueue_many(&pool, std::slice::from_ref(&job)).await.expect("enqueued")[0])
            } else {
                new(enqueue(&pool, &job).await.expect("enqueued"))
            };
            let stored: Vec<_> = rows(&pool).await.into_iter().map(strip).collect();
            let due = if state == "available" { past() } else { future() };
            assert_eq!(stored, [(id.get(), due, expected.clone())], "many: {many}");
        }
    }
}

#[tokio::test]
async fn job_without_options_is_due_now_and_stores_nothing_for_them() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = enqueue(&pool, &job("null")).await.expect("enqueued");
    let _ = enqueue_many(&pool, &[job("null")]).await.expect("enqueued");
    for row in rows(&pool).await {
        assert_eq!(row["table"], "awa.jobs_hot_0");
        assert_eq!(row["run_at"], row["created_at"], "both are the start of the transaction");
        for column in ["timeout", "tags", "metadata", "unique_key", "unique_states", "trace_context"] {
            assert_eq!(row[column], Value::Null, "{column}");
        }
    }
}

#[tokio::test]
async fn due_time_decides_the_plane() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let dues = [
        (Due::Now, "awa.jobs_hot_0"),
        (Due::In(Duration::ZERO), "awa.jobs_hot_0"),
        (Due::At(past()), "awa.jobs_hot_0"),
        (Due::In(HOUR), "awa.scheduled_jobs"),
        (Due::At(future()), "awa.scheduled_jobs"),
    ];
    let jobs: Vec<_> = dues.iter().map(|(due, _)| PreparedJob { due: *due, ..job("{}") }).collect();
    for job in &jobs {
        let _ = enqueue(&pool, job).await.expect("enqueued");
    }
    let _ = enqueue_many(&pool, &jobs).await.expect("enqueued");
    let tables: Vec<_> = rows(&pool).await.into_iter().map(|row| row["table"].clone()).collect();
    let expected: Vec<_> = dues.iter().chain(&dues).map(|(_, table)| json!(table)).collect();
    assert_eq!(tables, expected);
    let delay: bool = sqlx::query_scalar(
        "select bool_and(run_at = created_at + '1 hour') from awa.scheduled_jobs where run_at < now() + '2 hours'",
    )
    .fetch_one(&pool)
    .await
    .expect("the server answers");
    assert!(delay, "a delay counts from the start of the transaction");
}

#[tokio::test]
async fn answers_and_numbers_come_in_the_order_given() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let jobs: Vec<_> = (0..1000)
        .map(|n| PreparedJob {
            due: if n % 3 == 0 { Due::In(HOUR) } else { Due::Now },
            // Neither the order of queues nor that of keys is the order given.
            queue: queue(["z", "m", "a"][n % 3]),
            unique: (n % 2 == 0).then(Unique::until_finished),
            ..job(&format!(r#"{{"n":{n}}}"#))
        })
        .collect();
    let ids: Vec<_> = enqueue_many(&pool, &jobs).await.expect("enqueued").into_iter().map(new).collect();
    assert!(ids.is_sorted(), "ids are drawn in the order given");
    let stored = rows(&pool).await;
    let numbers: Vec<_> = stored.iter().map(|row| row["args"]["n"].as_u64()).collect();
    assert_eq!(numbers, (0..1000).map(Some).collect::<Vec<_>>());
    let seqs: Vec<_> = stored.iter().filter_map(|row| row.get("seq")?.as_i64()).collect();
    assert!(seqs.is_sorted() && seqs.len() == 666, "and so is the place in the lane");
}

#[tokio::test]
async fn each_segment_takes_jobs_while_it_is_the_current_one() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for generation in 0_i64..9 {
        sqlx::query("update awa.ring set oldest = $1, current = $1")
            .bind(generation)
            .execute(&pool)
            .await
            .expect("the server answers");
        let segment = format!("awa.jobs_hot_{}", generation % 8);
        let before = count(&pool, &segment).await;
        let _ = enqueue(&pool, &job("{}")).await.expect("enqueued");
        let _ = enqueue_many(&pool, &[job("{}"), job("{}")]).await.expect("enqueued");
        assert_eq!(count(&pool, &segment).await, before + 3);
    }
}

#[tokio::test]
async fn job_exists_if_and_only_if_its_transaction_commits() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    let pool = database.pool();
    let mut tx = connection.begin().await.expect("the server answers");
    let _ = enqueue(&mut *tx, &job("1")).await.expect("enqueued");
    let _ = enqueue_many(&mut *tx, &[crate::producing::unique("2")]).await.expect("enqueued");
    assert_eq!(count(&pool, "awa.jobs").await, 0, "nobody sees it before the commit");
    tx.rollback().await.expect("the server answers");
    assert_eq!((count(&pool, "awa.jobs").await, count(&pool, "awa.job_unique_claims").await), (0, 0));

    let mut tx = connection.begin().await.expect("the server answers");
    let _ = enqueue(&mut *tx, &job("1")).await.expect("enqueued");
    let _ = enqueue_many(&mut *tx, &[crate::producing::unique("2")]).await.expect("enqueued");
    tx.commit().await.expect("the server answers");
    assert_eq!((count(&pool, "awa.jobs").await, count(&pool, "awa.job_unique_claims").await), (2, 1));
}

#[tokio::test]
async fn what_jsonb_cannot_hold_is_refused_and_nothing_is_written() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for bad in [r#"{"a":"\u0000"}"#, r#"{"a":"\ud800"}"#, "{", ""] {
        let one = enqueue(&pool, &job(bad)).await.expect_err("refused");
        assert!(!one.is_transient(), "{bad:?}: {one}");
        let good = crate::producing::unique("{}");
        let many = enqueue_many(&pool, &[good.clone(), job(bad), good]).await.expect_err("refused");
        assert_eq!(many.sqlstate(), one.sqlstate(), "{bad:?}");
    }
    assert_eq!((count(&pool, "awa.jobs").await, count(&pool, "awa.job_unique_claims").await), (0, 0));
}

#[tokio::test]
async fn no_jobs_need_no_database() {
    let nowhere = PgPoolOptions::new().connect_lazy("postgres://127.0.0.1:1/nowhere").expect("a URL");
    assert_eq!(enqueue_many(&nowhere, &[]).await.expect("nothing to do"), []);
}

#[tokio::test]
async fn job_of_a_megabyte_is_stored_whole() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let long = "x".repeat(1024 * 1024 - 2);
    let large = crate::producing::unique(&format!("\"{long}\""));
    let id = new(enqueue(&pool, &large).await.expect("enqueued"));
    assert_eq!(enqueue_many(&pool, &[large]).await.expect("enqueued"), [Inserted::Duplicate(id)]);
    assert_eq!(rows(&pool).await[0]["args"], json!(long));
}

#[tokio::test]
async fn ten_thousand_jobs_without_a_key_never_conflict() {
    let database = TestDatabase::new().await;
    let pool: PgPool = database.pool();
    let jobs = vec![job("{}"); 10_000];
    let inserted = enqueue_many(&pool, &jobs).await.expect("enqueued");
    assert!(inserted.len() == 10_000 && inserted.iter().all(Inserted::is_new));
    assert_eq!(count(&pool, "awa.job_unique_claims").await, 0);
}

#[tokio::test]
async fn a_database_without_the_schema_is_told_how_to_get_it() {
    let database = TestDatabase::empty().await;
    let error = enqueue(&database.pool(), &job("{}")).await.expect_err("there is no schema");
    assert!(error.to_string().contains("run `awa migrate`"), "{error}");
    assert_eq!(error.sqlstate().as_deref(), Some("3F000"));
}
