//! A backlog of one queue is not the wait of another: what the scout of promotion promises. Counted in batches, not in time.

use std::time::Duration;

use awa_storage::{
    promote::{PromoteCursor, PromotedOthers, promote, promote_others},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{begin, count, run, text};

/// Rows of a batch: a small backlog is to take many.
const BATCH: u32 = 128;

/// Makes jobs of a queue due, the first so many seconds ago, each of the next a millisecond later.
async fn due(pool: &PgPool, queue: &str, number: u32, seconds_ago: u32) {
    let statement = format!(
        "insert into awa.scheduled_jobs (kind, queue, run_at)
         select 'noop', '{queue}', now() - interval '{seconds_ago} seconds' + place * interval '1 millisecond'
           from generate_series(1, {number}) as place"
    );
    run(pool, &statement).await;
}

async fn waiting(pool: &PgPool, queues: &str) -> i64 {
    count(pool, &format!("select count(*) from awa.scheduled_jobs where queue in ({queues}) and run_at <= now()")).await
}

/// An ordinary batch, and what follows it. Answers whether more is due.
async fn pass(pool: &PgPool, cursor: &mut PromoteCursor, batch: u32) -> bool {
    let done = promote(pool, cursor, batch).await.expect("a batch");
    promote_others(pool, cursor, batch).await.expect("a look");
    done.next_due == Some(Duration::ZERO)
}

/// Jobs whose queue has one that was due later and has become available earlier.
async fn out_of_order(pool: &PgPool) -> i64 {
    let statement = "select count(*)
                       from (select run_at, id, lag((run_at, id)) over (partition by queue order by seq) as before
                               from awa.jobs_hot) as job
                      where before > (run_at, id)";
    count(pool, statement).await
}

async fn catch_up(pool: &PgPool, cursor: &mut PromoteCursor, batch: u32) {
    while pass(pool, cursor, batch).await {}
    assert_eq!(count(pool, "select count(*) from awa.scheduled_jobs where run_at <= now()").await, 0);
}

/// Jobs of one queue, and a few of another at the front, in the middle and at the end.
async fn a_job_of_another_queue_waits_for_few_batches(backlog: u32, batch: u32) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let span = backlog.div_ceil(1000);
    due(&pool, "crowd", backlog, span + 10).await;
    for seconds_ago in [span + 10, span / 2 + 10, 10, 1] {
        due(&pool, "other", 3, seconds_ago).await;
    }
    let mut cursor = PromoteCursor::default();
    let mut passes = 0;
    while waiting(&pool, "'other'").await > 0 {
        assert!(pass(&pool, &mut cursor, batch).await, "the crowd came first");
        passes += 1;
    }
    let left = waiting(&pool, "'crowd'").await;
    assert!(left > i64::from(backlog) / 2, "after {passes} passes {left} are left");
    // What comes due now is found as soon, wherever the ordinary batches are.
    due(&pool, "other", 3, 1).await;
    pass(&pool, &mut cursor, batch).await;
    assert_eq!(waiting(&pool, "'other'").await, 0);
    catch_up(&pool, &mut cursor, batch).await;
    assert_eq!(out_of_order(&pool).await, 0);
}

#[tokio::test]
async fn a_job_of_another_queue_waits_for_few_batches_of_a_crowd() {
    a_job_of_another_queue_waits_for_few_batches(20_000, BATCH).await;
}

#[tokio::test]
async fn a_queue_of_few_jobs_does_not_wait_for_several_that_crowd() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    // One begins behind the other, so that the first fills the batches and the others the looks.
    for (place, queue) in ["a", "b", "c", "d", "e", "f"].into_iter().enumerate() {
        due(&pool, queue, 3000, 80 - 2 * u32::try_from(place).expect("small")).await;
    }
    // A few in each batch do not make a crowd.
    for seconds_ago in [79, 74, 70, 66, 60] {
        due(&pool, "thin", 3, seconds_ago).await;
    }
    let mut cursor = PromoteCursor::default();
    while waiting(&pool, "'thin'").await > 0 {
        assert!(pass(&pool, &mut cursor, BATCH).await, "the crowd came first");
    }
    let left = waiting(&pool, "'a', 'b', 'c', 'd', 'e', 'f'").await;
    assert!(left > 9000, "{left} are left");
    catch_up(&pool, &mut cursor, BATCH).await;
    assert_eq!(out_of_order(&pool).await, 0);
}

/// Which queues crowd changes on the way: a queue never overtakes itself.
#[tokio::test]
async fn each_queue_goes_by_due_time_whichever_of_them_crowd() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.scheduled_jobs (kind, queue, run_at)
         select 'noop', 'q' || case when hashint4(place) % 5 <> 0 then place / 2000 % 3 else abs(hashint4(-place)) % 12 end,
                now() - interval '60 seconds' + place * interval '2 milliseconds'
           from generate_series(1, 20000) as place",
    )
    .await;
    catch_up(&pool, &mut PromoteCursor::default(), BATCH).await;
    assert_eq!(out_of_order(&pool).await, 0);
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot").await, 20_000);
}

#[tokio::test]
async fn without_a_backlog_nothing_more_is_asked() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, "a", BATCH - 1, 60).await;
    let mut cursor = PromoteCursor::default();
    for _ in 0..3 {
        promote(&pool, &mut cursor, BATCH).await.expect("a batch");
        assert_eq!(promote_others(&pool, &mut cursor, BATCH).await.expect("no look"), None);
    }
    // A look follows a full batch, once.
    due(&pool, "a", BATCH + 1, 60).await;
    promote(&pool, &mut cursor, BATCH).await.expect("a batch");
    let looked = promote_others(&pool, &mut cursor, BATCH).await.expect("a look");
    assert_eq!(looked, Some(PromotedOthers::default()));
    assert_eq!(promote_others(&pool, &mut cursor, BATCH).await.expect("no look"), None);
}

#[tokio::test]
async fn a_look_takes_no_more_than_a_batch_and_the_next_goes_on_behind_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, "crowd", 2000, 60).await;
    due(&pool, "other", 300, 30).await;
    due(&pool, "many", 600, 20).await;
    let mut cursor = PromoteCursor::default();
    let mut promoted = Vec::new();
    for _ in 0..6 {
        promote(&pool, &mut cursor, BATCH).await.expect("a batch");
        let others = promote_others(&pool, &mut cursor, BATCH).await.expect("a look").expect("a backlog");
        promoted.push(others.promoted);
    }
    assert_eq!(promoted, [128, 128, 128, 128, 128, 128]);
    assert_eq!(out_of_order(&pool).await, 0);
}

#[tokio::test]
async fn locked_jobs_of_another_queue_hold_up_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, "crowd", 2000, 60).await;
    due(&pool, "other", 10, 30).await;
    let mut open = begin(&database).await;
    run(&mut open, "select from awa.scheduled_jobs where queue = 'other' and id % 2 = 0 for update").await;
    let mut cursor = PromoteCursor::default();
    pass(&pool, &mut cursor, BATCH).await;
    assert_eq!(waiting(&pool, "'other'").await, 5);
    run(&mut open, "commit").await;
    catch_up(&pool, &mut cursor, BATCH).await;
    assert_eq!(count(&pool, "select count(distinct id) from awa.jobs_hot").await, 2010);
}

/// I6, in what the scout finds.
#[tokio::test]
async fn a_bad_job_of_another_queue_ends_with_its_error_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, "crowd", 2000, 60).await;
    due(&pool, "other", 10, 30).await;
    run(&pool, "update awa.scheduled_jobs set kind = 'bad' where id % 5 = 0 and queue = 'other'").await;
    run(
        &pool,
        "insert into awa.scheduled_jobs (kind, queue, run_at, state, attempt, max_attempts)
         values ('spent', 'other', now() - interval '30 seconds', 'retryable', 3, 3)",
    )
    .await;
    crate::scene::poison(&pool, "jobs_hot_0").await;
    let mut cursor = PromoteCursor::default();
    promote(&pool, &mut cursor, BATCH).await.expect("a batch");
    let others = promote_others(&pool, &mut cursor, BATCH).await.expect("a look");
    assert_eq!(others, Some(PromotedOthers { promoted: 8, refused: 3, left_alone: 0 }));
    let ended = "select string_agg(distinct state || ' ' || kind, ', ') from awa.jobs where state <> 'available' and queue = 'other'";
    assert_eq!(text(&pool, ended).await, "cancelled bad, failed spent");
}

/// How many entries of the index are read while a backlog is promoted that an old snapshot keeps, dead, where it was.
async fn entries_read_beside_an_old_snapshot(backlog: u32, batch: u32) -> i64 {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, "crowd", backlog, 600).await;
    due(&pool, "other", backlog / 10, 600).await;
    let mut pin = begin(&database).await;
    run(&mut pin, "set transaction isolation level repeatable read").await;
    run(&mut pin, "select from awa.ring").await;
    let mut cursor = PromoteCursor::default();
    catch_up(&pool, &mut cursor, batch).await;
    // What a session has counted is told when it ends.
    pool.close().await;
    let mut reader = database.connect().await;
    loop {
        let read = count(
            &mut reader,
            "select idx_tup_read from pg_stat_all_indexes where indexrelname = 'scheduled_jobs_due'",
        )
        .await;
        if read >= i64::from(backlog) {
            return read;
        }
    }
}

#[tokio::test]
async fn an_old_snapshot_makes_a_fair_backlog_no_more_than_a_few_times_as_long() {
    let read = entries_read_beside_an_old_snapshot(20_000, BATCH).await;
    assert!(read < 16 * 22_000, "{read} entries");
}

mod long {
    #[tokio::test]
    async fn a_job_of_another_queue_waits_for_few_batches_of_a_million() {
        super::a_job_of_another_queue_waits_for_few_batches(1_000_000, 4096).await;
    }

    #[tokio::test]
    async fn an_old_snapshot_makes_a_fair_backlog_of_300_000_no_more_than_a_few_times_as_long() {
        let read = super::entries_read_beside_an_old_snapshot(300_000, 1024).await;
        assert!(read < 16 * 330_000, "{read} entries");
    }
}
