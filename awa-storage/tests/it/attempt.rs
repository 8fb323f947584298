//! Signs of life and progress: guarded, and never taken for lost while the row is merely on the move (I12, I13).

use awa_storage::{
    Claimed, Guarded,
    attempt::{flush_progress, heartbeat, heartbeat_with_progress},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::support::{claim, cursors, execute, insert, number};

async fn running(pool: &PgPool, count: i64) -> Vec<Claimed> {
    insert(pool, 0, count).await;
    let mut claimed = claim(&cursors(pool).await, pool, 1_000).await;
    claimed.sort_by_key(|job| job.lease.job_id());
    claimed
}

async fn progress(pool: &PgPool, id: i64) -> Option<String> {
    sqlx::query_scalar("select progress::text from awa.jobs where id = $1")
        .bind(id)
        .fetch_one(pool)
        .await
        .expect("a row")
}

#[tokio::test]
async fn a_beat_is_written_for_every_valid_lease_and_names_the_lost_ones() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held: Vec<_> = running(&pool, 3).await.iter().map(|job| job.lease.held()).collect();
    sqlx::query("update awa.jobs_hot_0 set run_lease = 2 where id = 2").execute(&pool).await.expect("a new lease");
    let lost = heartbeat(&pool, &held).await.expect("beats");
    assert_eq!(lost.iter().map(|held| held.job_id().get()).collect::<Vec<_>>(), [2]);
    assert_eq!(
        number(&pool, "select count(*) from awa.jobs where heartbeat_at is not null and progress is null").await,
        2
    );
}

#[tokio::test]
async fn progress_rides_on_the_beat_and_keeps_numbers_exactly() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let jobs = running(&pool, 2).await;
    let text = r#"{"percent": 7, "metadata": {"last": 123456789012345678901234567890}}"#;
    let lost = heartbeat_with_progress(&pool, &[(jobs[1].lease.held(), text.into())]).await.expect("beats");
    assert!(lost.is_empty());
    assert_eq!(progress(&pool, 2).await.map(|stored| stored.contains("123456789012345678901234567890")), Some(true));
    assert_eq!(progress(&pool, 1).await, None);
}

#[tokio::test]
async fn a_flush_of_a_lost_lease_stores_nothing_and_says_so() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let job = running(&pool, 1).await.remove(0);
    let held = job.lease.held();
    let flush = |text: &'static str| flush_progress(&pool, &held, text);
    assert_eq!(flush(r#"{"percent": 1}"#).await.expect("stored"), Guarded::Applied(()));
    sqlx::query("update awa.jobs_hot_0 set run_lease = 2").execute(&pool).await.expect("a new lease");
    assert_eq!(flush(r#"{"percent": 2}"#).await.expect("an answer"), Guarded::Lost);
    assert_eq!(progress(&pool, 1).await.as_deref(), Some(r#"{"percent": 1}"#));
}

/// The beat waits for the row that a move has locked; when the move commits the row is somewhere else, lease and all.
#[tokio::test]
async fn a_beat_that_waits_on_a_move_is_not_lost() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held: Vec<_> = running(&pool, 2).await.iter().map(|job| job.lease.held()).collect();
    let mut keeper = database.connect().await;
    let columns: String = sqlx::query_scalar("select awa.job_columns('')").fetch_one(&pool).await.expect("columns");
    execute(&mut keeper, "begin").await;
    let mover = format!(
        "with moved as (delete from awa.jobs_hot_0 where id = 2 returning *)
         insert into awa.jobs_hot_4 ({columns}) select {columns} from moved"
    );
    sqlx::query(sqlx::AssertSqlSafe(mover)).execute(&mut keeper).await.expect("a move");
    let beating = tokio::spawn({
        let (pool, held) = (pool.clone(), held.clone());
        async move { heartbeat(&pool, &held).await }
    });
    // The commit comes once the beat waits for it.
    while number(&pool, "select count(*) from pg_locks where not granted").await == 0 {
        tokio::task::yield_now().await;
    }
    execute(&mut keeper, "commit").await;
    assert!(beating.await.expect("the task").expect("beats").is_empty());
    assert_eq!(number(&pool, "select count(*) from awa.jobs where heartbeat_at is not null").await, 2);
}

fn generation(number: u64) -> String {
    format!(r#"{{"percent": {number}, "generation": {number}}}"#)
}

async fn percent(pool: &PgPool) -> i64 {
    number(pool, "select (progress ->> 'percent')::bigint from awa.jobs").await
}

#[tokio::test]
async fn the_newest_generation_stays_in_whatever_order_statements_are_executed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held = running(&pool, 1).await.remove(0).lease.held();
    for (sent, kept) in [(5, 5), (9, 9), (6, 9), (9, 9), (10, 10)] {
        sqlx::query("update awa.jobs_hot_0 set heartbeat_at = '2020-01-01'").execute(&pool).await.expect("aged");
        assert_eq!(flush_progress(&pool, &held, &generation(sent)).await.expect("an answer"), Guarded::Applied(()));
        assert_eq!(percent(&pool).await, kept, "after {sent}");
        let beaten = "select count(*) from awa.jobs where heartbeat_at > '2021-01-01'";
        assert_eq!(number(&pool, beaten).await, 1, "the beat counts in any case: {sent}");
    }
}

/// A statement whose sender has given it up waits at the row; what was sent after it is stored first.
#[tokio::test]
async fn a_stalled_statement_that_is_executed_late_undoes_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held = running(&pool, 1).await.remove(0).lease.held();
    let mut later = database.connect().await;
    execute(&mut later, "begin").await;
    let stored = r#"select awa.beat('{0}', '{1}', '{1}', array['{"percent": 6, "generation": 6}'::jsonb])"#;
    execute(&mut later, stored).await;
    let stalled = tokio::spawn({
        let pool = pool.clone();
        async move { flush_progress(&pool, &held, &generation(5)).await }
    });
    while number(&pool, "select count(*) from pg_locks where not granted").await == 0 {
        tokio::task::yield_now().await;
    }
    execute(&mut later, "commit").await;
    assert_eq!(stalled.await.expect("the task").expect("an answer"), Guarded::Applied(()));
    assert_eq!(percent(&pool).await, 6);
}

#[tokio::test]
async fn what_is_no_generation_of_ours_stands_in_nobodys_way() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let held = running(&pool, 1).await.remove(0).lease.held();
    for edited in ["null", "7", "{}", r#"{"generation": "9"}"#, r#"{"generation": {}}"#, r#"{"generation": 1e300}"#] {
        sqlx::query("update awa.jobs_hot_0 set progress = $1::text::jsonb")
            .bind(edited)
            .execute(&pool)
            .await
            .expect("an edit");
        assert_eq!(flush_progress(&pool, &held, &generation(1)).await.expect("an answer"), Guarded::Applied(()));
        assert_eq!(percent(&pool).await, 1, "over {edited}");
    }
}
