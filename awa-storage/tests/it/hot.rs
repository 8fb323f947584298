//! What an attempt changes is in no index (I9): the updates of a short job stay on their page while a snapshot holds every version.

use awa_storage::{
    settle::{Completion, complete_many},
    testing::TestDatabase,
};
use sqlx::Row as _;

use crate::support::{claim, cursors, execute, insert};

#[tokio::test]
async fn claim_and_completion_write_no_index() {
    const JOBS: i64 = 200;
    let database = TestDatabase::new().await;
    let pool = database.pool();
    insert(&pool, 0, JOBS).await;
    // Nothing can be pruned while this snapshot is held: three versions have to fit.
    let mut pin = database.connect().await;
    execute(&mut pin, "begin isolation level repeatable read; select count(*) from awa.jobs_hot_0").await;
    let claimed = claim(&cursors(&pool).await, &pool, 1_000).await;
    let done: Vec<_> = claimed.into_iter().map(|job| Completion { lease: job.lease, result: None }).collect();
    complete_many(&pool, &done).await.expect("completions");
    // Sessions report what they did at the latest when they end.
    pool.close().await;
    let mut observer = database.connect().await;
    let (updates, within_page) = loop {
        let counted = sqlx::query(
            "select n_tup_upd as updates, n_tup_hot_upd as within_page
               from pg_stat_all_tables where relid = 'awa.jobs_hot_0'::regclass",
        )
        .fetch_one(&mut observer)
        .await
        .expect("statistics");
        let (updates, within_page): (i64, i64) = (counted.get("updates"), counted.get("within_page"));
        if updates >= 2 * JOBS {
            break (updates, within_page);
        }
    };
    assert_eq!((updates, within_page), (2 * JOBS, 2 * JOBS));
}
