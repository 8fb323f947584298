//! What one producer writes, or how it is set up, never stops the jobs of others: values that PostgreSQL takes and a claim
//! could stumble over, settings of the session, isolation levels, a reader that goes on to write.

use awa_storage::testing::TestDatabase;
use sqlx::PgPool;

use crate::{
    scene::{count, run, text},
    support::{claim, cursors, execute},
};

/// Jobs of kind `noop` that a claim could fail at, each by another way in.
const POISON: [&str; 6] = [
    "select from awa.enqueue('noop', tags => '[0:1]={a,b}')",
    "insert into awa.jobs (kind, tags) values ('noop', '[3:4]={a,b}')",
    "update awa.jobs set tags = '[-1:0]={a,b}' where id = (select min(id) from awa.jobs)",
    "insert into awa.jobs (kind, timeout) values ('noop', '300000 years -109574999 days')",
    "select awa.enqueue_one('noop', 'default', 2::smallint, '{}', null, 25::smallint, '178000000 years', '[0:0]={a}', null, null,
                            null, null)",
    "select awa.enqueue_one('noop', 'default', 2::smallint, '{}', null, 25::smallint, '-178000000 years', '{{a},{b}}', null,
                            null, null, null)",
];

#[tokio::test]
async fn whatever_tags_and_timeouts_a_producer_writes_all_jobs_are_claimed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "select from generate_series(1, 5) as number cross join lateral awa.enqueue('noop', to_jsonb(number))")
        .await;
    for statement in POISON {
        run(&pool, statement).await;
    }
    let jobs = claim(&cursors(&pool).await, &pool, 100).await;
    assert_eq!(jobs.len(), 10, "five of each sort, one of them changed");
    assert_eq!(jobs.iter().filter(|job| job.tags == ["a", "b"]).count(), 4);
    let day = "select count(*) from awa.jobs where timeout = '1 day' and deadline_at = attempted_at + interval '1 day'";
    assert_eq!(count(&pool, day).await, 1, "by its seconds");
    assert_eq!(count(&pool, "select count(*) from awa.jobs where deadline_at > now() + interval '900 years'").await, 1);
}

#[tokio::test]
async fn a_unique_key_does_not_depend_on_the_settings_of_the_session() {
    const PAY: &str =
        r#"select outcome from awa.enqueue('pay', '{"amount": 1.50, "note": "a\\b \"1.0\""}', unique_by => '{}')"#;
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert_eq!(text(&pool, PAY).await, "inserted");
    let mut other = database.connect().await;
    execute(&mut other, "set standard_conforming_strings = off").await;
    assert_eq!(text(&mut other, &PAY.replace('\\', r"\\")).await, "duplicate");
}

/// The key was given back after the snapshot was taken, which shows the old claim beside the new one.
#[tokio::test]
async fn a_key_that_was_given_back_since_a_snapshot_is_taken_or_is_a_serialization_failure() {
    const CALLS: [&str; 4] = [
        "select outcome from awa.enqueue('pay', unique_by => '{}')",
        r#"select outcome from awa.enqueue_many('[{"kind": "pay", "unique_by": {}}]')"#,
        r#"select outcome from awa.enqueue('pay', unique_by => '{}', on_conflict => 'error')"#,
        r#"select outcome from awa.enqueue('pay', unique_by => '{}', on_conflict => 'replace')"#,
    ];
    for call in CALLS {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        let holder = count(&pool, "select job_id from awa.enqueue('pay', unique_by => '{}')").await;
        let mut reader = database.connect().await;
        execute(&mut reader, "begin isolation level repeatable read").await;
        count(&mut reader, "select count(*) from awa.jobs").await;
        run(&pool, &format!("select from awa.cancel({holder})")).await;
        let answer: Result<String, sqlx::Error> =
            sqlx::query_scalar(sqlx::AssertSqlSafe(call)).fetch_one(&mut reader).await;
        match answer {
            Ok(outcome) => {
                assert_eq!(outcome, "inserted", "{call}");
                execute(&mut reader, "commit").await;
                assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 1, "{call}");
            }
            Err(error) => {
                let code = error
                    .as_database_error()
                    .and_then(sqlx::error::DatabaseError::code)
                    .expect("an answer")
                    .into_owned();
                assert_eq!(code, "40001", "{call}: {error}");
            }
        }
    }
}

/// Whether somebody keeps writers, but not readers, off the first segment.
async fn is_kept(pool: &PgPool) -> bool {
    // Databases of other tests come from the same template, and so do the numbers of their tables.
    let kept = "select count(*) from pg_locks
                 where relation = 'awa.jobs_hot_0'::regclass and mode = 'ExclusiveLock' and granted
                   and database = (select oid from pg_database where datname = current_database())";
    count(pool, kept).await > 0
}

/// PostgreSQL would fail the one who asks second, and that is the user.
#[tokio::test]
async fn who_has_read_a_segment_that_is_to_be_emptied_can_go_on_and_write_in_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind, state, finalized_at) values ('old', 'completed', '2020-01-01')").await;
    run(&pool, "select awa.rotate(0), awa.configure_ring(snapshot_patience => '0')").await;
    for _ in 0..5 {
        let mut user = database.connect().await;
        execute(&mut user, "begin").await;
        count(&mut user, "select count(*) from awa.jobs_hot").await;
        let emptied = tokio::spawn({
            let pool = pool.clone();
            async move { text(&pool, "select outcome from awa.recycle(0, 1000000, 100)").await }
        });
        while !is_kept(&pool).await && !emptied.is_finished() {}
        execute(&mut user, "update awa.jobs_hot set metadata = '{}' where segment = 0").await;
        execute(&mut user, "rollback").await;
        assert_eq!(emptied.await.expect("no panic"), "locked");
    }
    assert_eq!(text(&pool, "select outcome from awa.recycle(0, 1000000, 100)").await, "recycled");
}

#[tokio::test]
async fn a_batch_for_more_queues_than_a_server_has_locks_is_enqueued_and_wakes_all() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let mut listener = sqlx::postgres::PgListener::connect_with(&pool).await.expect("the server answers");
    listener.listen("awa").await.expect("the server answers");
    let many =
        "select from awa.enqueue_many((select jsonb_agg(jsonb_build_object('kind', 'noop', 'queue', 'q' || number))
                                                from generate_series(1, 1500) as number))";
    assert_eq!(run(&pool, many).await, 1500);
    let hash = text(&pool, "select hashtext('q1500')::text").await;
    while listener.recv().await.expect("a wake-up").payload() != hash {}
    assert_eq!(count(&pool, "select count(distinct queue) from awa.jobs").await, 1500);
}
