//! COPY: all or none, also when it is refused, rolled back, dropped half-way or not allowed.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use awa_model::{Due, Inserted, OnConflict, PreparedJob, Unique};
use awa_storage::{
    Error,
    enqueue::{enqueue, enqueue_copy},
    testing::{TestDatabase, TestRole},
};
use serde_json::json;
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::producing::{count, job, new, queue, unique};
use crate::support::execute;

/// Due and deferred jobs, with keys and without.
fn mixed(count: usize) -> Vec<PreparedJob> {
    let due = |n: usize| if n.is_multiple_of(3) { Due::In(Duration::from_secs(3600)) } else { Due::Now };
    let one = |n: usize| if n.is_multiple_of(5) { unique(&n.to_string()) } else { job(&n.to_string()) };
    (0..count).map(|n| PreparedJob { due: due(n), queue: queue(["a", "b"][n % 2]), ..one(n) }).collect()
}

/// Rows in both planes, and keys.
async fn counts(pool: &PgPool) -> [i64; 3] {
    [
        count(pool, "awa.jobs_hot").await,
        count(pool, "awa.scheduled_jobs").await,
        count(pool, "awa.job_unique_claims").await,
    ]
}

#[tokio::test]
async fn copy_answers_in_the_order_given_and_fills_both_planes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let answers = enqueue_copy(&mut database.connect().await, &mixed(90)).await.expect("enqueued");
    assert_eq!(counts(&pool).await, [60, 30, 18]);
    for (n, answer) in answers.into_iter().enumerate() {
        let args: i64 = sqlx::query_scalar("select args::text::bigint from awa.jobs where id = $1")
            .bind(new(answer))
            .fetch_one(&pool)
            .await
            .expect("the job");
        assert_eq!(usize::try_from(args), Ok(n));
    }
}

// BATCH-02
#[tokio::test]
async fn copy_of_nothing_needs_no_statement() {
    let database = TestDatabase::empty().await;
    assert_eq!(enqueue_copy(&mut database.connect().await, &[]).await.expect("nothing to do"), []);
}

/// Refused by the server in the middle of the second table, after keys were taken and the first table was filled.
#[tokio::test]
async fn refused_copy_writes_nothing_and_leaves_the_callers_transaction_alone() {
    let database = TestDatabase::new().await;
    let (pool, mut connection) = (database.pool(), database.connect().await);
    let mut bad = mixed(2000);
    bad[1899].args = "{".to_owned();
    let error = enqueue_copy(&mut connection, &bad).await.expect_err("refused");
    assert_eq!(error.sqlstate().as_deref(), Some("22P02"), "{error}");
    assert_eq!(counts(&pool).await, [0, 0, 0]);

    // In a transaction that sqlx began, and in one that a statement of the caller's began.
    let mut tx = connection.begin().await.expect("the server answers");
    let _ = enqueue(&mut *tx, &job("1")).await.expect("enqueued");
    enqueue_copy(&mut tx, &bad).await.expect_err("refused");
    let _ = enqueue_copy(&mut tx, &mixed(90)).await.expect("enqueued");
    tx.commit().await.expect("the server answers");
    assert_eq!(counts(&pool).await, [61, 30, 18]);

    execute(&mut connection, "begin").await;
    enqueue_copy(&mut connection, &bad).await.expect_err("refused");
    let answers = enqueue_copy(&mut connection, &mixed(90)).await.expect("enqueued");
    assert_eq!(answers.iter().filter(|answer| answer.is_new()).count(), 72, "the keys are held");
    execute(&mut connection, "rollback").await;
    assert_eq!(counts(&pool).await, [61, 30, 18]);
}

#[tokio::test]
async fn conflict_under_the_policy_error_refuses_the_whole_copy() {
    let database = TestDatabase::new().await;
    let (pool, mut connection) = (database.pool(), database.connect().await);
    let holder = new(enqueue(&pool, &unique("1")).await.expect("enqueued"));
    let rule = Unique::until_finished().on_conflict(OnConflict::Error);
    let jobs = [job("0"), PreparedJob { unique: Some(rule), ..job("1") }];
    let error = enqueue_copy(&mut connection, &jobs).await.expect_err("a conflict");
    assert!(matches!(error, Error::Duplicate { holder: named } if named == holder), "{error}");
    assert_eq!(counts(&pool).await, [1, 0, 1]);
    // Also where nothing is left for COPY: a transaction that cannot be committed would lose what the caller wrote.
    let mut tx = connection.begin().await.expect("the server answers");
    let _ = enqueue(&mut *tx, &job("2")).await.expect("enqueued");
    enqueue_copy(&mut tx, &jobs[1..]).await.expect_err("a conflict");
    let _ = enqueue(&mut *tx, &job("3")).await.expect("enqueued");
    tx.commit().await.expect("the server answers");
    assert_eq!(counts(&pool).await, [3, 0, 1]);
}

/// Polls `future` this often, unless it is done before. Whether it was.
async fn polled<T>(future: impl Future<Output = T>, times: usize) -> bool {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Whether the connection still answers what it is asked: never the answer of another statement.
async fn is_alive(connection: &mut PgConnection) -> bool {
    for number in 0..3_i32 {
        match sqlx::query_scalar::<_, i32>("select $1").bind(number).fetch_one(&mut *connection).await {
            Ok(answer) => assert_eq!(answer, number),
            Err(_) => return false,
        }
    }
    true
}

// I11: the future is dropped after its first poll, after its second, and so on to the end.
#[tokio::test]
async fn dropped_copy_adds_all_or_nothing_and_its_connection_never_answers_wrongly() {
    let database = TestDatabase::new().await;
    // More than the network holds: it is also dropped while the server is slower than it.
    let pool = database.pool();
    let jobs: Vec<_> = mixed(300)
        .into_iter()
        .map(|job| PreparedJob { metadata: Some(json!({ "text": "x".repeat(60_000) })), ..job })
        .collect();
    let (mut times, mut ended, mut finished) = (0, 0, false);
    while !finished {
        let mut connection = database.connect().await;
        assert!(is_alive(&mut connection).await);
        finished = polled(enqueue_copy(&mut connection, &jobs), times).await;
        ended += usize::from(!is_alive(&mut connection).await);
        drop(connection);
        let found = settled(&pool).await;
        // Dropped while the commit was on its way, all of it is there.
        let whole = found == [200, 100, 60];
        assert!(whole || found == [0, 0, 0] && !finished, "after {times} polls: {found:?}");
        sqlx::raw_sql("delete from awa.jobs_hot; delete from awa.scheduled_jobs")
            .execute(&pool)
            .await
            .expect("emptied");
        times += 1;
    }
    assert!(ended > 2, "{times} polls, {ended} sessions ended");
}

// I11 with a transaction of the caller's: what it says of its commit is true, for the work before the COPY as well.
#[tokio::test]
async fn transaction_around_a_dropped_copy_is_committed_or_reported_as_lost() {
    let database = TestDatabase::new().await;
    let (pool, jobs) = (database.pool(), mixed(300));
    let (mut times, mut lost, mut finished) = (0, 0, false);
    while !finished {
        let mut connection = database.connect().await;
        let mut tx = connection.begin().await.expect("the server answers");
        let _ = enqueue(&mut *tx, &job("0")).await.expect("enqueued");
        finished = polled(enqueue_copy(&mut tx, &jobs), times).await;
        let committed = tx.commit().await.is_ok();
        lost += usize::from(!committed);
        assert!(committed || !is_alive(&mut connection).await);
        drop(connection);
        let expected = if finished { [201, 100, 60] } else { [i64::from(committed), 0, 0] };
        assert_eq!(settled(&pool).await, expected, "after {times} polls, committed: {committed}");
        sqlx::raw_sql("delete from awa.jobs_hot; delete from awa.scheduled_jobs")
            .execute(&pool)
            .await
            .expect("emptied");
        times += 1;
    }
    assert!(lost > 2, "{times} polls, {lost} transactions lost");
}

/// The counts once no other session is in the middle of something.
async fn settled(pool: &PgPool) -> [i64; 3] {
    let busy =
        "select exists (select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()
                    and state <> 'idle' and backend_type = 'client backend')";
    while sqlx::query_scalar::<_, bool>(busy).fetch_one(pool).await.expect("the server answers") {}
    counts(pool).await
}

#[tokio::test]
async fn pool_replaces_a_connection_whose_copy_was_dropped() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let jobs = mixed(300);
    for times in 1..12 {
        let mut connection = pool.acquire().await.expect("the server answers");
        let _ = polled(enqueue_copy(&mut connection, &jobs), times).await;
        drop(connection);
        let mut connections = Vec::new();
        for _ in 0..3 {
            let mut connection = pool.acquire().await.expect("the server answers");
            assert!(is_alive(&mut connection).await, "after {times} polls");
            connections.push(connection);
        }
    }
}

/// BATCH-08: ids are drawn, never counted, so producers cannot meet.
#[tokio::test]
async fn producers_beside_one_another_get_distinct_ids() {
    each_producer_gets_its_own_ids(4, 5, 200).await;
}

mod long {
    #[tokio::test]
    async fn producers_beside_one_another_get_distinct_ids() {
        super::each_producer_gets_its_own_ids(16, 60, 1000).await;
    }
}

async fn each_producer_gets_its_own_ids(producers: usize, rounds: usize, rows: usize) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let producing = (0..producers).map(|_| async {
        let mut connection = database.connect().await;
        let mut ids = Vec::new();
        for round in 0..rounds {
            let due = if round % 2 == 0 { Due::Now } else { Due::In(Duration::from_secs(60)) };
            let jobs = vec![PreparedJob { due, ..job("{}") }; rows];
            ids.extend(enqueue_copy(&mut connection, &jobs).await.expect("enqueued"));
            ids.push(enqueue(&mut connection, &jobs[0]).await.expect("enqueued"));
        }
        ids
    });
    let ids: Vec<_> =
        futures_util::future::join_all(producing).await.into_iter().flatten().map(|one| one.id()).collect();
    let distinct: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!((distinct.len(), ids.len()), (ids.len(), producers * rounds * (rows + 1)));
    let stored: i64 =
        sqlx::query_scalar("select count(distinct id) from awa.jobs").fetch_one(&pool).await.expect("a count");
    assert_eq!(usize::try_from(stored), Ok(ids.len()));
}

/// A role with the rights of a producer may not write the tables: the functions do it for it.
#[tokio::test]
async fn role_that_may_not_write_the_tables_enqueues_through_the_functions() {
    let database = TestDatabase::new().await;
    let role = TestRole::new(&database).await;
    sqlx::query("select awa.grant_access($1, 'producer')")
        .bind(role.name())
        .execute(&database.pool())
        .await
        .expect("granted");
    let mut connection = role.connect().await;
    let answers = enqueue_copy(&mut connection, &mixed(90)).await.expect("enqueued");
    assert!(answers.iter().all(Inserted::is_new));
    assert_eq!(counts(&database.pool()).await, [60, 30, 18]);
    let mut tx = connection.begin().await.expect("the server answers");
    let refused = PreparedJob { args: "{".to_owned(), ..job("0") };
    enqueue_copy(&mut tx, &[refused]).await.expect_err("refused");
    let _ = enqueue(&mut *tx, &job("1")).await.expect("enqueued");
    tx.commit().await.expect("the server answers");
    assert_eq!(counts(&database.pool()).await, [61, 30, 18]);
}
