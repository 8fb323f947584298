//! I5 under load: many producers, every way to insert, commits out of order, rollbacks, a transaction that stays open.
//!
//! While they write, one process claims and ticks. In the end every committed job has been claimed exactly once, and a
//! process that starts afterwards from the persisted marks finds nothing left.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use awa_storage::{Cursors, testing::TestDatabase};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use sqlx::{PgConnection, PgPool};

use crate::support::{claim, claim_all, cursors, execute, insert, sorted, tick_until};

/// How much is written.
struct Scale {
    seed: u64,
    producers: u64,
    transactions: usize,
    rows_max: i64,
}

/// One of the ways in which a producer may insert; the rows' ids come back from the table.
async fn insert_somehow(connection: &mut PgConnection, random: &mut StdRng, rows_max: i64) {
    let table = ["awa.jobs_hot", "awa.jobs_hot_0", "awa.jobs_hot_1", "awa.jobs_hot_5"][random.random_range(0..4)];
    let rows = random.random_range(1..=rows_max);
    let priority = random.random_range(1..=4_i16);
    let statement = match random.random_range(0..4) {
        0 => format!("insert into {table} (kind, priority) values ('noop', {priority})"),
        1 => format!(
            "insert into {table} (kind, priority)
             select 'noop', p from unnest(array_fill({priority}::smallint, array[{rows}])) as p"
        ),
        2 => format!(
            "insert into {table} (kind, priority)
             select 'noop', {priority} from generate_series(1, {rows}) order by random()"
        ),
        _ => {
            let mut copy =
                connection.copy_in_raw(&format!("copy {table} (kind, priority) from stdin")).await.expect("a copy");
            let text = format!("noop\t{priority}\n").repeat(usize::try_from(rows).expect("few rows"));
            copy.send(text.into_bytes()).await.expect("rows");
            copy.finish().await.expect("the end of the copy");
            return;
        }
    };
    sqlx::query(sqlx::AssertSqlSafe(statement)).execute(connection).await.expect("rows inserted");
}

/// Writes transactions that stay open for a while, one in five rolled back.
async fn produce(database: &TestDatabase, scale: &Scale, number: u64) {
    let mut random = StdRng::seed_from_u64(scale.seed + number);
    let mut connection = database.connect().await;
    for _ in 0..scale.transactions {
        execute(&mut connection, "begin").await;
        for _ in 0..random.random_range(1..=3) {
            insert_somehow(&mut connection, &mut random, scale.rows_max).await;
        }
        for _ in 0..random.random_range(0..12) {
            execute(&mut connection, "select 1").await;
        }
        execute(&mut connection, if random.random_bool(0.2) { "rollback" } else { "commit" }).await;
    }
}

/// Claims and ticks until the producers have ended and everything is settled; returns what was claimed.
async fn consume(cursors: &Cursors, pool: &PgPool, producing: &AtomicUsize) -> Vec<i64> {
    let mut claimed = Vec::new();
    loop {
        let over = producing.load(Ordering::SeqCst) == 0;
        claimed.extend(claim(cursors, pool, 64).await.iter().map(|job| job.lease.job_id().get()));
        let tick = cursors.tick(pool).await.expect("a tick");
        if over && tick.settled {
            claimed.extend(claim_all(cursors, pool).await);
            return claimed;
        }
    }
}

async fn every_committed_job_is_claimed_once(scale: Scale) {
    println!("seed {}", scale.seed);
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let producing = AtomicUsize::new(usize::try_from(scale.producers).expect("few producers") + 1);
    let mut long = database.connect().await;
    execute(&mut long, "begin").await;
    let mut late = insert(&mut long, 0, 20).await;
    let writers = futures_util::future::join_all((0..scale.producers).map(|number| {
        let (database, scale, producing) = (&database, &scale, &producing);
        async move {
            produce(database, scale, number).await;
            producing.fetch_sub(1, Ordering::SeqCst)
        }
    }));
    // The open transaction ends after all the others, with rows from its beginning and from its end.
    let writing = async {
        writers.await;
        late.extend(insert(&mut long, 1, 20).await);
        execute(&mut long, "commit").await;
        producing.fetch_sub(1, Ordering::SeqCst);
    };
    let (claimed, ()) = tokio::join!(consume(&cursors, &pool, &producing), writing);
    let committed: Vec<i64> =
        sqlx::query_scalar("select id from awa.jobs order by id").fetch_all(&pool).await.expect("ids");
    assert!(committed.len() > late.len());
    let once: BTreeSet<i64> = claimed.iter().copied().collect();
    assert_eq!(once.len(), claimed.len(), "no job is claimed twice");
    assert_eq!(sorted(claimed), committed, "no job is passed over");

    cursors.persist_marks(&pool).await.expect("marks");
    let newcomer = crate::support::cursors(&pool).await;
    tick_until(&newcomer, &pool, |tick| tick.settled).await;
    assert_eq!(newcomer.safe_horizon(), cursors.safe_horizon());
    assert!(claim_all(&newcomer, &pool).await.is_empty());
}

#[tokio::test]
async fn no_job_is_passed_over_whatever_order_transactions_commit_in() {
    every_committed_job_is_claimed_once(Scale { seed: 20_260_101, producers: 6, transactions: 40, rows_max: 20 }).await;
}

#[tokio::test]
async fn no_job_of_a_large_late_transaction_is_passed_over() {
    late_transaction_is_claimed(6_000).await;
}

/// One transaction of many rows that commits after its neighbours have been claimed.
async fn late_transaction_is_claimed(rows: i64) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let cursors = cursors(&pool).await;
    let mut writer = database.connect().await;
    execute(&mut writer, "begin").await;
    let late = insert(&mut writer, 0, rows).await;
    let early = insert(&pool, 0, 5).await;
    assert_eq!(sorted(claim_all(&cursors, &pool).await), early);
    tick_until(&cursors, &pool, |tick| tick.set_aside).await;
    execute(&mut writer, "commit").await;
    let mut claimed = Vec::new();
    loop {
        let tick = cursors.tick(&pool).await.expect("a tick");
        claimed.extend(claim(&cursors, &pool, 1_000).await.iter().map(|job| job.lease.job_id().get()));
        if tick.settled {
            break;
        }
    }
    assert_eq!(sorted(claimed), late);
}

mod long {
    //! The same at full size.

    use super::{Scale, every_committed_job_is_claimed_once, late_transaction_is_claimed};

    #[tokio::test]
    async fn no_job_is_passed_over_whatever_order_transactions_commit_in() {
        for seed in 0..2 {
            let scale = Scale { seed, producers: 8, transactions: 300, rows_max: 50 };
            every_committed_job_is_claimed_once(scale).await;
        }
    }

    #[tokio::test]
    async fn no_job_of_a_large_late_transaction_is_passed_over() {
        late_transaction_is_claimed(200_000).await;
    }
}
