//! What producers may send: many jobs, none, jobs of any size, bytes that PostgreSQL cannot hold, and transactions that end
//! badly. Each by Rust and by SQL.

use awa_model::{Inserted, JobState, Unique, UniqueStates};
use awa_storage::{
    admin::Operated,
    enqueue::{enqueue, enqueue_copy, enqueue_many},
    testing::TestDatabase,
    unique,
};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _, PgPool};

use crate::producing::{count, finish, job, new, unique as keyed};
use crate::support::{claim, cursors, execute, kind};

/// Rows in both planes, and keys.
async fn counts(pool: &PgPool) -> (i64, i64) {
    (count(pool, "awa.jobs").await, count(pool, "awa.job_unique_claims").await)
}

// BATCH-01
async fn batches_of(sizes: &[usize]) {
    let database = TestDatabase::new().await;
    let (pool, mut connection) = (database.pool(), database.connect().await);
    for size in sizes {
        let jobs: Vec<_> = (0..*size).map(|n| job(&n.to_string())).collect();
        let mut answers = enqueue_many(&pool, &jobs).await.expect("enqueued");
        answers.extend(enqueue_copy(&mut connection, &jobs).await.expect("enqueued"));
        let ids: Vec<i64> = answers.into_iter().map(|answer| new(answer).get()).collect();
        let in_order: bool = sqlx::query_scalar(
            "select bool_and(job.args = to_jsonb((given.place - 1) % $2)) and count(*) = 2 * $2
               from unnest($1::bigint[]) with ordinality as given (id, place) join awa.jobs as job using (id)",
        )
        .bind(&ids)
        .bind(i64::try_from(*size).expect("few"))
        .fetch_one(&pool)
        .await
        .expect("the server answers");
        assert!(in_order, "{size}");
        let texts = format!("[{}]", vec![r#"{"kind":"work"}"#; *size].join(","));
        let answers: Vec<i64> = sqlx::query_scalar("select job_id from awa.enqueue_many($1::text::jsonb)")
            .bind(texts)
            .fetch_all(&pool)
            .await
            .expect("enqueued");
        assert!(answers.len() == *size && answers.is_sorted(), "{size}");
    }
}

#[tokio::test]
async fn batch_of_any_size_is_added_whole_and_answered_in_order() {
    batches_of(&[1, 5_000]).await;
}

// BATCH-02
#[tokio::test]
async fn empty_batch_adds_nothing_and_is_no_error() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let answers = sqlx::query("select * from awa.enqueue_many('[]')").fetch_all(&pool).await.expect("nothing to do");
    assert!(answers.is_empty());
    assert_eq!(enqueue_many(&pool, &[]).await.expect("nothing to do"), []);
    assert_eq!(counts(&pool).await, (0, 0));
}

// BATCH-03
#[tokio::test]
async fn jobs_of_a_transaction_that_is_rolled_back_leave_nothing_and_can_be_enqueued_again() {
    let database = TestDatabase::new().await;
    let (pool, mut connection) = (database.pool(), database.connect().await);
    let sql = "select * from awa.enqueue('work', '5', queue => 'first_use', unique_by => '{}');
               select * from awa.enqueue_many('[{\"kind\":\"work\",\"args\":6,\"unique_by\":{},\"run_in\":60}]')";
    for end in ["rollback", "rollback to savepoint mine; commit", "commit"] {
        execute(&mut connection, "begin; savepoint mine").await;
        let mut answers = vec![enqueue(&mut connection, &keyed("1")).await.expect("enqueued")];
        answers.extend(enqueue_many(&mut connection, &[keyed("2"), job("3")]).await.expect("enqueued"));
        answers.extend(enqueue_copy(&mut connection, &[keyed("4"), job("3")]).await.expect("enqueued"));
        assert!(answers.iter().all(Inserted::is_new), "{end}");
        sqlx::raw_sql(sql).execute(&mut connection).await.expect("enqueued");
        assert_eq!(counts(&pool).await, (0, 0), "nobody sees them yet");
        execute(&mut connection, end).await;
        assert_eq!(counts(&pool).await, if end == "commit" { (7, 5) } else { (0, 0) }, "{end}");
    }
}

// INPUT-01, for what gets as far as the database; awa-model's tests name the field on Rust's side.
#[tokio::test]
async fn what_the_database_cannot_hold_fails_the_whole_statement_and_leaves_nothing() {
    let database = TestDatabase::new().await;
    let (pool, mut connection) = (database.pool(), database.connect().await);
    let nul = r"\u0000";
    for bad in [
        format!(r#"{{"kind":"a{nul}"}}"#),
        format!(r#"{{"kind":"a","queue":"{nul}"}}"#),
        format!(r#"{{"kind":"a","args":{{"v":"{nul}"}}}}"#),
        format!(r#"{{"kind":"a","args":["{nul}"]}}"#),
        format!(r#"{{"kind":"a","args":{{"{nul}":1}}}}"#),
        format!(r#"{{"kind":"a","tags":["{nul}"]}}"#),
        format!(r#"{{"kind":"a","unique_by":{{"args":["{nul}"]}}}}"#),
        r#"{"kind":"a","args":"\ud800"}"#.to_owned(),
    ] {
        let jobs = format!("[{}{bad}]", r#"{"kind":"good","unique_by":{}},"#.repeat(99));
        let answer = sqlx::query("select awa.enqueue_many($1::text::jsonb)").bind(jobs).fetch_all(&pool).await;
        assert!(answer.is_err(), "{bad}");
    }
    let bad = [keyed("1"), job(r#"{"a":"\u0000"}"#)];
    enqueue_many(&pool, &bad).await.expect_err("refused");
    enqueue_copy(&mut connection, &bad).await.expect_err("refused");
    // Invalid UTF-8, as a client might send it.
    sqlx::raw_sql(r"select awa.enqueue(E'a\xff')").execute(&pool).await.expect_err("refused");
    assert_eq!(counts(&pool).await, (0, 0));
}

// UNIQ-03
#[tokio::test]
async fn keys_are_bytes_and_jobs_without_one_are_never_alike() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let keyed = "select count(*) filter (where outcome = 'inserted') from awa.enqueue_many((
                     select jsonb_agg(jsonb_build_object('kind', 'work', 'args', n, 'unique_by', '{}'::jsonb))
                       from generate_series(1, 10000) as n))";
    let inserted: i64 = sqlx::query_scalar(keyed).fetch_one(&pool).await.expect("enqueued");
    assert_eq!((inserted, counts(&pool).await), (10_000, (10_000, 10_000)));
    // By the simple protocol: statements as text, answers as text.
    sqlx::raw_sql(keyed).execute(&pool).await.expect("all are duplicates");
    sqlx::raw_sql("select awa.enqueue('work', '1', unique_by => '{}'); select awa.enqueue('work', '1')")
        .execute(&pool)
        .await
        .expect("enqueued");
    assert_eq!(counts(&pool).await, (10_001, 10_000));
}

// UNIQ-05
#[tokio::test]
async fn rule_under_which_a_claim_would_take_a_key_is_refused_on_every_path() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let states = UniqueStates::of(&[JobState::Running]);
    let mut bad = job("{}");
    bad.unique = Some(Unique::until_finished().states(states));
    for error in [
        enqueue(&pool, &bad).await.expect_err("refused"),
        enqueue_many(&pool, &[bad.clone()]).await.expect_err("refused"),
    ] {
        assert_eq!(error.sqlstate().as_deref(), Some("22023"), "{error}");
    }
    for table in ["jobs_hot", "jobs_hot_0", "scheduled_jobs", "jobs"] {
        let direct = format!(
            "insert into awa.{table} (kind, run_at, unique_key, unique_states)
             values ('work', now(), substring(sha256('a') for 16), 4)"
        );
        // A scheduled row takes no key yet, but carries the rule.
        sqlx::raw_sql(AssertSqlSafe(direct)).execute(&pool).await.expect_err(table);
    }
    assert_eq!(counts(&pool).await, (0, 0));

    // Two jobs that would share a key under such a rule are claimed with ten others under one that is allowed.
    let rule = Unique::until_finished().states(UniqueStates::of(&[JobState::Retryable]));
    let mut jobs = vec![job("{}"); 12];
    for (place, job) in jobs.iter_mut().enumerate() {
        job.kind = kind();
        job.unique = (place < 2).then(|| rule.clone());
    }
    let _ = enqueue_many(&pool, &jobs).await.expect("enqueued");
    assert_eq!(claim(&cursors(&pool).await, &pool, 12).await.len(), 12);
}

// INPUT-08
#[tokio::test]
async fn large_args_are_claimed_beside_small_ones_and_larger_are_refused() {
    args_of(1, &[]).await;
}

async fn args_of(large: usize, too_large: &[usize]) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let mut jobs = vec![job("1"); 20];
    jobs.push(job(&text(large * 1024 * 1024)));
    for job in &mut jobs {
        job.kind = kind();
    }
    let _ = enqueue_many(&pool, &jobs).await.expect("enqueued");
    let megabyte = 1024 * 1024;
    for bytes in std::iter::once(megabyte + 1).chain(too_large.iter().map(|size| size * megabyte)) {
        let statement = "select awa.enqueue('work', to_jsonb(repeat('x', $1 - 2)))";
        let answer = sqlx::query(statement).bind(i32::try_from(bytes).expect("32 bits")).execute(&pool).await;
        let refusal = answer.expect_err("too large").to_string();
        let expected = format!("args has {bytes} bytes as JSON; at most 1048576 are allowed");
        assert!(refusal.contains(&expected), "{refusal}");
    }
    let claimed = claim(&cursors(&pool).await, &pool, 30).await;
    assert_eq!(claimed.len(), 21);
    assert_eq!(claimed.iter().map(|job| job.args.len()).max(), Some(large * megabyte));
}

mod long {
    #[tokio::test]
    async fn batch_of_any_size_is_added_whole_and_answered_in_order() {
        super::batches_of(&[10_000, 100_000]).await;
    }

    #[tokio::test]
    async fn large_args_are_claimed_beside_small_ones_and_larger_are_refused() {
        super::args_of(1, &[16, 64, 250]).await;
    }
}

#[tokio::test]
async fn holder_of_a_key_is_found_and_called_off_from_rust_and_from_sql() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let wanted = keyed(r#"{"a":1}"#);
    assert_eq!(unique::find(&pool, &wanted).await.expect("answered"), None);
    assert_eq!(unique::cancel(&pool, &wanted, None).await.expect("answered"), None);
    let id = new(enqueue(&pool, &wanted).await.expect("enqueued"));
    assert_eq!(unique::find(&pool, &wanted).await.expect("answered"), Some(id));
    assert_eq!(unique::find(&pool, &keyed(r#"{"a":2}"#)).await.expect("answered"), None);
    let found = "select awa.find_unique('work', '{\"a\":1.0}')";
    assert_eq!(sqlx::query_scalar::<_, Option<i64>>(found).fetch_one(&pool).await.expect("answered"), Some(id.get()));
    let cancelled = unique::cancel(&pool, &wanted, Some("no longer wanted")).await.expect("answered");
    assert_eq!(cancelled, Some((id, Operated::Applied)));
    assert_eq!(unique::find(&pool, &wanted).await.expect("answered"), None);

    let second = new(enqueue(&pool, &wanted).await.expect("enqueued"));
    let statement = "select to_jsonb(answer) from awa.cancel_unique('work', '{\"a\":1}', reason => 'x') as answer";
    for expected in [
        json!({ "job_id": second.get(), "outcome": "applied", "state": "cancelled", "holder": null }),
        json!({ "job_id": null, "outcome": "not_found", "state": null, "holder": null }),
    ] {
        assert_eq!(sqlx::query_scalar::<_, Value>(statement).fetch_one(&pool).await.expect("answered"), expected);
    }
    // A rule under which a completed job holds the key: there is nothing left to call off, and it says so.
    let mut kept = wanted;
    kept.unique = Some(Unique::within(std::time::Duration::from_secs(3600)));
    let third = new(enqueue(&pool, &kept).await.expect("enqueued"));
    finish(&pool, third).await;
    let refused = unique::cancel(&pool, &kept, None).await.expect("answered");
    assert_eq!(refused, Some((third, Operated::Refused { state: JobState::Completed })));
}

// I8: a request for a key of an open transaction's waits; one that only asks who holds it does not.
#[tokio::test]
async fn finding_waits_for_nobody() {
    let database = TestDatabase::new().await;
    let mut connection = database.connect().await;
    let mut tx = connection.begin().await.expect("the server answers");
    let _ = enqueue(&mut *tx, &keyed("{}")).await.expect("enqueued");
    assert_eq!(unique::find(&database.pool(), &keyed("{}")).await.expect("answered"), None);
    tx.rollback().await.expect("the server answers");
}
