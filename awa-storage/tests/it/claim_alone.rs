//! Claims that change rows without locking them first: what was ever locked is passed by, and found by the next claim.

use awa_storage::{Claimed, Cursors, testing::TestDatabase};
use sqlx::PgPool;

use crate::support::{cursors, execute, insert, number, queue, sorted};

/// Locks a row and lets go of it: its header names the transaction from then on.
async fn lock_once(database: &TestDatabase, id: i64) {
    let mut connection = database.connect().await;
    let locked: i64 = sqlx::query_scalar("select id from awa.jobs_hot where id = $1 for update")
        .bind(id)
        .fetch_one(&mut connection)
        .await
        .expect("a lock");
    assert_eq!(locked, id);
}

async fn claim(cursors: &Cursors, pool: &PgPool, want: usize) -> Vec<Claimed> {
    cursors.claim(pool, &[(queue("default"), want)]).await.expect("a claim")
}

async fn claimed(cursors: &Cursors, pool: &PgPool, want: usize) -> Vec<i64> {
    sorted(claim(cursors, pool, want).await.iter().map(|job| job.lease.job_id().get()).collect())
}

#[tokio::test]
async fn a_row_that_was_locked_once_is_claimed_by_the_claim_after_a_short_one() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let rows = insert(&pool, 0, 4).await;
    lock_once(&database, rows[0]).await;
    lock_once(&database, rows[2]).await;
    assert_eq!(claimed(&cursors, &pool, 4).await, [rows[1], rows[3]], "locks nothing");
    assert_eq!(claimed(&cursors, &pool, 4).await, [rows[0], rows[2]], "locks first");
}

#[tokio::test]
async fn rows_that_were_all_locked_once_are_claimed_although_no_claim_gets_beyond_them() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let rows = insert(&pool, 0, 3).await;
    for row in &rows {
        lock_once(&database, *row).await;
    }
    assert_eq!(claimed(&cursors, &pool, 3).await, Vec::<i64>::new());
    assert_eq!(claimed(&cursors, &pool, 3).await, rows);
}

#[tokio::test]
async fn a_claim_beside_another_of_its_queue_locks_first() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let rows = insert(&pool, 0, 3).await;
    lock_once(&database, rows[1]).await;
    let mut other = database.connect().await;
    execute(&mut other, "begin; select pg_advisory_xact_lock(1096237386, hashtext('default'))").await;
    assert_eq!(claimed(&cursors, &pool, 3).await, rows);
}

#[tokio::test]
async fn a_row_that_is_locked_in_the_middle_of_a_claim_is_passed_by_in_bounded_time() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let rows = insert(&pool, 0, 4).await;
    // The claim stops at its first row, with all rows chosen, until the gate is open.
    sqlx::raw_sql(
        "create function public.stop() returns trigger language plpgsql as $$
         begin
             perform set_config('lock_timeout', '60s', true);
             perform pg_advisory_xact_lock(42);
             perform set_config('lock_timeout', '20ms', true);
             return new;
         end $$;
         create trigger stop before update on awa.jobs_hot_0
             for each row when (old.seq = 1 and new.state = 'running') execute function public.stop()",
    )
    .execute(&pool)
    .await
    .expect("a stop");
    let (mut gate, mut user) = (database.connect().await, database.connect().await);
    execute(&mut gate, "begin; select pg_advisory_xact_lock(42)").await;
    let stepped = async {
        let waits =
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'advisory'";
        while number(&pool, waits).await == 0 {}
        execute(&mut user, "begin; select from awa.jobs_hot_0 where seq = 3 for update").await;
        execute(&mut gate, "commit").await;
    };
    let (got, ()) = tokio::join!(claim(&cursors, &pool, 4), stepped);
    let leases: Vec<(i64, i64)> =
        got.iter().map(|job| (job.lease.job_id().get(), job.lease.run_lease().get())).collect();
    assert_eq!(leases, [(rows[0], 1), (rows[1], 1), (rows[3], 1)], "the claim that failed has left nothing behind");
    execute(&mut user, "rollback").await;
    assert_eq!(claimed(&cursors, &pool, 4).await, [rows[2]]);
}

#[tokio::test]
async fn a_nearly_empty_queue_is_left_to_the_process_that_claims_from_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let rows = insert(&pool, 0, 2).await;
    assert_eq!(claimed(&cursors, &pool, 3).await, rows, "short: the queue is nearly empty");
    let later = insert(&pool, 0, 2).await;
    let mut other = database.connect().await;
    execute(&mut other, "begin; select pg_advisory_xact_lock(1096237386, hashtext('default'))").await;
    assert_eq!(claimed(&cursors, &pool, 3).await, Vec::<i64>::new(), "passed by");
    execute(&mut other, "rollback").await;
    assert_eq!(claimed(&cursors, &pool, 3).await, later);
}

#[tokio::test]
async fn a_process_that_hangs_while_it_claims_does_not_keep_a_queue_from_others() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    assert_eq!(claimed(&cursors, &pool, 3).await, Vec::<i64>::new());
    let rows = insert(&pool, 0, 2).await;
    let mut other = database.connect().await;
    execute(&mut other, "begin; select pg_advisory_xact_lock(1096237386, hashtext('default'))").await;
    let mut got = Vec::new();
    for _ in 0..10_000 {
        got = claimed(&cursors, &pool, 3).await;
        if !got.is_empty() {
            break;
        }
    }
    assert_eq!(got, rows, "after a while it claims beside the other");
    execute(&mut other, "rollback").await;
}

#[tokio::test]
async fn a_queue_with_rows_in_its_way_is_not_left_to_another() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let mut late = database.connect().await;
    execute(&mut late, "begin").await;
    let overtaken = insert(&mut late, 0, 1).await;
    let rows = insert(&pool, 0, 1).await;
    assert_eq!(claimed(&cursors, &pool, 3).await, rows);
    execute(&mut late, "commit").await;
    let mut other = database.connect().await;
    execute(&mut other, "begin; select pg_advisory_xact_lock(1096237386, hashtext('default'))").await;
    // Transactions of other databases hold the horizon back for a while, too.
    let mut found = 0;
    for _ in 0..10_000 {
        found = cursors.tick(&pool).await.expect("a tick").found;
        if found > 0 {
            break;
        }
    }
    assert_eq!(found, 1);
    assert_eq!(claimed(&cursors, &pool, 3).await, overtaken);
    execute(&mut other, "rollback").await;
}
