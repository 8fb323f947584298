//! Readers while the ring turns. TRUNCATE takes effect for every snapshot, so what has to hold is: a reader of the view sees
//! no job twice and misses none that is live or within its retention, whatever is moved and emptied meanwhile.

use awa_storage::{
    ring::{Recycled, look, recycle, rotate},
    settle::{Settlement, Verdict, settle_many},
    testing::TestDatabase,
};
use sqlx::{PgConnection, PgPool};

use crate::scene::{begin, count, run, running, text, until_blocked};

const PATIENT: &str = "update awa.ring set clean_since = clean_since - interval '1 hour'";

/// One job of each sort: a straggler that runs, one that waits, one that was completed just now, and ten that are expired.
async fn scene(pool: &PgPool) {
    running(pool, "noop", 1).await;
    run(pool, "insert into awa.jobs_hot (kind) values ('waits')").await;
    run(pool, "insert into awa.jobs_hot (kind, state, finalized_at) values ('kept', 'completed', now())").await;
    run(
        pool,
        "insert into awa.jobs_hot (kind, state, finalized_at)
         select 'expired', 'completed', '2020-01-01' from generate_series(1, 10)",
    )
    .await;
    let needs = look(pool).await.expect("a look");
    assert!(rotate(pool, needs.current).await.expect("an answer"));
}

async fn turn(pool: &PgPool) -> Recycled {
    let needs = look(pool).await.expect("a look");
    // Everything is committed here, so that any mark will do.
    recycle(pool, needs.oldest, 1_000_000, 100).await.expect("an answer")
}

/// Moves what is in the way.
async fn move_on(pool: &PgPool) {
    assert_eq!(turn(pool).await, Recycled::Moved(3));
}

/// What the view shows, each job by its kind.
async fn seen(reader: &mut PgConnection) -> String {
    text(reader, "select string_agg(kind, ' ' order by kind) from awa.jobs").await
}

const ALL: &str = "kept noop waits";

/// A transaction with a snapshot of its own that has not come near the job tables.
async fn snapshot(database: &TestDatabase) -> PgConnection {
    let mut reader = database.connect().await;
    run(&mut reader, "begin isolation level repeatable read").await;
    run(&mut reader, "select count(*) from pg_class").await;
    reader
}

#[tokio::test]
async fn a_snapshot_older_than_a_move_is_waited_for() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let mut reader = snapshot(&database).await;
    move_on(&pool).await;
    let Recycled::Snapshots { reason } = turn(&pool).await else { panic!("the snapshot needs the segment") };
    assert_eq!(text(&pool, "select stuck_reason from awa.ring where stuck_since is not null").await, reason);
    // It finds the jobs where they were.
    assert_eq!(seen(&mut reader).await, ALL);
    run(&mut reader, "commit").await;
    assert_eq!(turn(&pool).await, Recycled::Done);
    assert_eq!(seen(&mut reader).await, ALL);
    assert_eq!(text(&pool, "select stuck_reason from awa.ring").await, "");
}

/// The same where the job leaves by itself.
#[tokio::test]
async fn a_snapshot_older_than_the_end_of_an_attempt_is_waited_for() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, mut jobs) = running(&pool, "noop", 1).await;
    let mut reader = snapshot(&database).await;
    let verdict = Verdict::Retry { after: None, error: "again".to_owned() };
    settle_many(&pool, &[Settlement { lease: jobs.remove(0).lease, verdict, progress: None }]).await.expect("settled");
    assert!(rotate(&pool, 0).await.expect("an answer"));
    assert!(matches!(turn(&pool).await, Recycled::Snapshots { .. }));
    assert_eq!(seen(&mut reader).await, "noop");
    run(&mut reader, "commit").await;
    assert_eq!(turn(&pool).await, Recycled::Done);
}

#[tokio::test]
async fn transactions_that_began_later_or_elsewhere_are_not_waited_for() {
    let (database, elsewhere) = (TestDatabase::new().await, TestDatabase::new().await);
    let pool = database.pool();
    scene(&pool).await;
    let other = snapshot(&elsewhere).await;
    let mut old = snapshot(&database).await;
    move_on(&pool).await;
    assert!(matches!(turn(&pool).await, Recycled::Snapshots { .. }));
    let mut young = snapshot(&database).await;
    run(&mut old, "commit").await;
    assert_eq!(turn(&pool).await, Recycled::Done);
    assert_eq!(seen(&mut young).await, ALL);
    drop(other);
}

/// The limit, and what it costs: a transaction that is older than the patience and comes to the job tables only now.
#[tokio::test]
async fn a_forgotten_transaction_does_not_stop_the_ring() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let mut forgotten = snapshot(&database).await;
    move_on(&pool).await;
    assert!(matches!(turn(&pool).await, Recycled::Snapshots { .. }));
    run(&pool, PATIENT).await;
    assert_eq!(turn(&pool).await, Recycled::Done);
    assert_eq!(seen(&mut forgotten).await, "");
    run(&mut forgotten, "commit").await;
    assert_eq!(seen(&mut forgotten).await, ALL);
}

/// What a reader does that wants one picture for long, as pg_dump does: it locks first.
#[tokio::test]
async fn a_reader_that_has_locked_the_view_keeps_its_picture_for_as_long_as_it_likes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let mut locked = database.connect().await;
    run(&mut locked, "begin isolation level repeatable read").await;
    run(&mut locked, "lock table awa.jobs in access share mode").await;
    let mut reading = database.connect().await;
    run(&mut reading, "begin isolation level repeatable read").await;
    assert_eq!(seen(&mut reading).await, ALL);
    move_on(&pool).await;
    assert!(matches!(turn(&pool).await, Recycled::Snapshots { .. }));
    run(&pool, PATIENT).await;
    for reader in [&mut locked, &mut reading] {
        assert_eq!(turn(&pool).await, Recycled::Locked);
        assert_eq!(seen(reader).await, ALL);
        run(reader, "commit").await;
    }
    assert_eq!(turn(&pool).await, Recycled::Done);
}

/// Each step of a turn is held open in turn; a reader that comes then sees each job once, at once or when the step is done.
#[tokio::test]
async fn a_reader_at_any_step_sees_each_job_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    let step = "select outcome from awa.recycle(0, 1000000, 100)";
    let mut reader = database.connect().await;
    assert_eq!(seen(&mut reader).await, ALL);
    let mut keeper = begin(&database).await;
    assert_eq!(text(&mut keeper, step).await, "moved");
    // Between the move's delete and its commit, and after it.
    assert_eq!(seen(&mut reader).await, ALL);
    run(&mut keeper, "commit").await;
    assert_eq!(seen(&mut reader).await, ALL);
    run(&mut keeper, "begin").await;
    assert_eq!(text(&mut keeper, step).await, "recycled");
    // The segment is truncated and the lock is held: the reader waits, and takes its snapshot only then.
    let waits = tokio::spawn(async move { seen(&mut reader).await });
    until_blocked(&pool, 1).await;
    run(&mut keeper, "commit").await;
    assert_eq!(waits.await.expect("no panic"), ALL);
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_0").await, 0);
}

/// One whose first statement comes while the lock is held has its snapshot already: the rows had moved before that.
#[tokio::test]
async fn a_repeatable_reader_that_waits_for_the_truncation_sees_each_job_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    scene(&pool).await;
    move_on(&pool).await;
    let mut keeper = begin(&database).await;
    assert_eq!(text(&mut keeper, "select outcome from awa.recycle(0, 1000000, 100)").await, "recycled");
    let mut reader = database.connect().await;
    run(&mut reader, "begin isolation level repeatable read").await;
    let waits = tokio::spawn(async move { seen(&mut reader).await });
    until_blocked(&pool, 1).await;
    run(&mut keeper, "commit").await;
    assert_eq!(waits.await.expect("no panic"), ALL);
}
