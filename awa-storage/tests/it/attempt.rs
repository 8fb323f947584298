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
