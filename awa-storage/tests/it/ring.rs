//! The ring: what is truncated was completed and past its retention, and a row in the way loses nothing by being moved.

use awa_model::JobState;
use awa_storage::{
    Claimed, Guarded,
    attempt::heartbeat,
    ring::{Recycled, SettledMark, look, recycle, rotate},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{begin, changed, claim, count, insert_full, poison, registered, row, run, running, states, text};

/// Rows may be moved out of the way up to this number.
const MOVE_MAX: u32 = 100;

/// Inserts jobs that were completed long ago, or a moment ago, into the current segment.
async fn completed(pool: &PgPool, number: usize, ago: &str) {
    let statement = format!(
        "insert into awa.jobs_hot (kind, state, finalized_at)
         select 'noop', 'completed', now() - interval '{ago}' from generate_series(1, {number})"
    );
    run(pool, &statement).await;
}

/// A mark above everything that was inserted by transactions that have ended. Others on this server may hold it back for a
/// moment, and an open insert for as long as it is open.
async fn settled(pool: &PgPool) -> i64 {
    let last = count(pool, "select last_value from awa.job_seq").await;
    let mut mark = SettledMark::default();
    for _ in 0..1000 {
        mark.observe(pool).await.expect("an observation");
        if mark.seq() >= last {
            break;
        }
    }
    mark.seq()
}

async fn advance(pool: &PgPool) {
    let needs = look(pool).await.expect("a look");
    assert!(rotate(pool, needs.current).await.expect("an answer"));
}

async fn recycle_oldest(pool: &PgPool) -> Recycled {
    let needs = look(pool).await.expect("a look");
    recycle(pool, needs.oldest, settled(pool).await, MOVE_MAX).await.expect("an answer")
}

/// Recycles the oldest segment, moving what is in the way.
async fn empty_oldest(pool: &PgPool) {
    let mut outcome = recycle_oldest(pool).await;
    while let Recycled::Moved(_) = outcome {
        outcome = recycle_oldest(pool).await;
    }
    assert_eq!(outcome, Recycled::Done);
}

async fn left_in_segment_0(pool: &PgPool) -> i64 {
    count(pool, "select count(*) from awa.jobs_hot_0").await
}

#[tokio::test]
async fn the_ring_advances_when_its_segment_is_old_and_holds_rows() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let age = "update awa.ring set opened_at[1] = opened_at[1] - interval '5 hours'";
    run(&pool, age).await;
    assert!(!look(&pool).await.expect("a look").rotate);
    completed(&pool, 1, "0").await;
    assert!(look(&pool).await.expect("a look").rotate);
    run(&pool, "update awa.ring set opened_at[1] = now()").await;
    assert!(!look(&pool).await.expect("a look").rotate);
    run(&pool, "update awa.ring set segment_bytes_max = 8192").await;
    assert!(look(&pool).await.expect("a look").rotate);
}

#[tokio::test]
async fn of_two_callers_one_advances_the_ring() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert!(rotate(&pool, 0).await.expect("an answer"));
    assert!(!rotate(&pool, 0).await.expect("an answer"));
    assert_eq!(look(&pool).await.expect("a look").current, 1);
}

#[tokio::test]
async fn a_full_ring_does_not_advance() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for current in 0..7 {
        assert!(rotate(&pool, current).await.expect("an answer"));
    }
    completed(&pool, 1, "0").await;
    run(&pool, "update awa.ring set opened_at[8] = opened_at[8] - interval '5 hours'").await;
    let needs = look(&pool).await.expect("a look");
    assert!(!needs.rotate && needs.rotate_in.is_none());
    assert!(!rotate(&pool, 7).await.expect("an answer"));
}

#[tokio::test]
async fn a_segment_of_expired_rows_is_emptied_and_its_keys_are_free() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 500, "2 days").await;
    // Completed rows that hold a key as such, and one elsewhere that has to keep it.
    run(
        &pool,
        "insert into awa.jobs_hot (kind, state, finalized_at, unique_key, unique_states)
         select 'noop', 'completed', '2020-01-01', decode(md5(place::text), 'hex'), 34 from generate_series(1, 5) as place",
    )
    .await;
    advance(&pool).await;
    run(
        &pool,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('noop', decode(md5('kept'), 'hex'), 34)",
    )
    .await;
    assert_eq!(recycle_oldest(&pool).await, Recycled::Done);
    assert_eq!(left_in_segment_0(&pool).await, 0);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 1);
    let needs = look(&pool).await.expect("a look");
    assert_eq!((needs.oldest, needs.current, needs.recycle_in), (1, 1, None));
}

/// I7.
#[tokio::test]
async fn a_completed_row_within_its_retention_is_kept() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 10, "2 days").await;
    completed(&pool, 3, "1 hour").await;
    run(&pool, "insert into awa.queues (name, completed_retention) values ('kept', '1000000 years')").await;
    run(&pool, "insert into awa.jobs_hot (kind, queue, state, finalized_at) values ('noop', 'kept', 'completed', '2020-01-01')").await;
    advance(&pool).await;
    empty_oldest(&pool).await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_parked where state = 'completed'").await, 4);
}

/// I7, where the rows are too many to be moved.
#[tokio::test]
async fn many_rows_within_their_retention_are_waited_for() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 101, "1 hour").await;
    advance(&pool).await;
    let outcome = recycle_oldest(&pool).await;
    let reason = "segment 0: more than 100 jobs ended late and are within their retention".to_owned();
    assert_eq!(outcome, Recycled::Waiting { reason: reason.clone() });
    assert_eq!(text(&pool, "select stuck_reason from awa.ring").await, reason);
    assert_eq!(left_in_segment_0(&pool).await, 101);
}

#[tokio::test]
async fn a_backlog_is_left_to_drain() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind) select 'noop' from generate_series(1, 101)").await;
    advance(&pool).await;
    let reason = "segment 0: a backlog of more than 100 jobs has to drain".to_owned();
    assert_eq!(recycle_oldest(&pool).await, Recycled::Waiting { reason });
    assert_eq!(left_in_segment_0(&pool).await, 101);
}

/// RETAIN-02: rows kept for long never go by themselves, so they are moved however many there are.
#[tokio::test]
async fn many_rows_kept_for_long_are_parked_batch_by_batch() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.queues (name, completed_retention) values ('kept', '30 days')").await;
    run(
        &pool,
        "insert into awa.jobs_hot (kind, queue, state, finalized_at)
         select 'noop', 'kept', 'completed', now() - interval '2 days' from generate_series(1, 250)",
    )
    .await;
    advance(&pool).await;
    empty_oldest(&pool).await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_parked").await, 250);
    assert_eq!(states(&pool).await, "completed 250");
}

/// I13.
#[tokio::test]
async fn a_running_row_in_the_way_keeps_its_lease() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, mut jobs) = running(&pool, "noop", 3).await;
    advance(&pool).await;
    empty_oldest(&pool).await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_1 where state = 'running'").await, 3);
    let held: Vec<_> = jobs.iter().map(|job: &Claimed| job.lease.held()).collect();
    assert_eq!(heartbeat(&pool, &held).await.expect("beats"), []);
    let completion = Completion { lease: jobs.remove(0).lease, result: None };
    assert_eq!(complete_many(&pool, &[completion]).await.expect("answers"), [Guarded::Applied(())]);
    let verdict = Verdict::Retry { after: None, error: "again".to_owned() };
    let settlement = Settlement { lease: jobs.remove(0).lease, verdict, progress: None };
    assert_eq!(settle_many(&pool, &[settlement]).await.expect("answers"), [Guarded::Applied(JobState::Retryable)]);
}

/// I13, while both go on: the move holds the row when the worker writes about it.
#[tokio::test]
async fn a_heartbeat_that_waits_for_a_move_is_not_lost() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 1).await;
    advance(&pool).await;
    let mut moving = begin(&database).await;
    run(&mut moving, "select awa.move_rows(0::smallint, array(select ctid from awa.jobs_hot_0))").await;
    let held = [jobs[0].lease.held()];
    let beat = heartbeat(&pool, &held);
    let commit = async {
        // The heartbeat waits for the row by now, or finds it moved: either way it must not be lost.
        while count(&pool, "select count(*) from pg_locks where not granted").await == 0 {}
        run(&mut moving, "commit").await;
    };
    let (lost, ()) = tokio::join!(beat, commit);
    assert_eq!(lost.expect("beats"), []);
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_1 where heartbeat_at is not null").await, 1);
}

#[tokio::test]
async fn an_available_row_in_the_way_joins_the_end_of_its_lane() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind) values ('first'), ('second')").await;
    advance(&pool).await;
    run(&pool, "insert into awa.jobs_hot (kind) values ('third')").await;
    empty_oldest(&pool).await;
    assert_eq!(text(&pool, "select string_agg(kind, ' ' order by seq) from awa.jobs_hot").await, "third first second");
    let worker = registered(&pool).await;
    assert_eq!(claim(&pool, worker, "first", 1).await.len(), 1);
}

#[tokio::test]
async fn every_column_survives_a_move_on_and_a_move_aside() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for state in ["available", "completed"] {
        let id = insert_full(&pool, "jobs_hot", state).await;
        run(&pool, &format!("update awa.jobs_hot set finalized_at = now(), heartbeat_at = '2020-01-01', deadline_at = '2020-01-01', attempted_by = gen_random_uuid() where id = {id}")).await;
        let before = row(&pool, id).await;
        advance(&pool).await;
        empty_oldest(&pool).await;
        assert_eq!(changed(&before, &row(&pool, id).await), [] as [&str; 0]);
        assert_eq!(count(&pool, &format!("select job_id from awa.job_unique_claims where job_id = {id}")).await, id);
        run(&pool, &format!("delete from awa.jobs_hot where id = {id}")).await;
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_moved_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind) select case when place = 3 then 'bad' else 'noop' end from generate_series(1, 6) as place").await;
    advance(&pool).await;
    poison(&pool, "jobs_hot_1").await;
    assert_eq!(recycle_oldest(&pool).await, Recycled::Moved(5));
    let Recycled::Waiting { reason } = recycle_oldest(&pool).await else { panic!("the bad row is still there") };
    assert!(reason.contains("could not be moved"), "{reason}");
    assert_eq!(left_in_segment_0(&pool).await, 1);
}

/// Empties segments whatever snapshots are open, so that a test comes to the locks.
const IMPATIENT: &str = "update awa.ring set snapshot_patience = '0'";

/// A transaction that has inserted into the segment, and is still open when it is recycled.
#[tokio::test]
async fn an_open_insert_is_not_lost() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, IMPATIENT).await;
    completed(&pool, 10, "2 days").await;
    let mut open = begin(&database).await;
    run(&mut open, "insert into awa.jobs_hot (kind) values ('late')").await;
    advance(&pool).await;
    assert_eq!(recycle_oldest(&pool).await, Recycled::Locked);
    assert_eq!(left_in_segment_0(&pool).await, 10);
    run(&mut open, "commit").await;
    empty_oldest(&pool).await;
    assert_eq!(count(&pool, "select count(*) from awa.jobs_hot_1 where kind = 'late'").await, 1);
}

/// The row comes in between the reading of the segment and the lock.
#[tokio::test]
async fn an_insert_between_reading_and_lock_is_not_lost() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 10, "2 days").await;
    advance(&pool).await;
    let settled = settled(&pool).await;
    run(&pool, "insert into awa.jobs_hot_0 (kind, queue) values ('late', 'elsewhere')").await;
    let step = format!("select outcome from awa.truncate_oldest(0, {settled}, now() - interval '1 day', '{{}}')");
    assert_eq!(text(&pool, &step).await, "waiting");
    assert_eq!(left_in_segment_0(&pool).await, 11);
    run(&pool, "delete from awa.jobs_hot where kind = 'late'").await;
    assert_eq!(text(&pool, &step).await, "recycled");
}

/// A reader keeps the table locked for long, a dump for example: recycling gives up, and leaves nothing half done.
#[tokio::test]
async fn a_reader_that_stays_makes_nobody_wait() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, IMPATIENT).await;
    run(&pool, "insert into awa.jobs_hot (kind, state, finalized_at, unique_key, unique_states) values ('noop', 'completed', '2020-01-01', decode(md5('key'), 'hex'), 34)").await;
    advance(&pool).await;
    let mut reader = begin(&database).await;
    run(&mut reader, "select count(*) from awa.jobs_hot_0").await;
    assert_eq!(recycle_oldest(&pool).await, Recycled::Locked);
    assert!(text(&pool, "select stuck_reason from awa.ring").await.contains("locked"));
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 1);
    run(&mut reader, "commit").await;
    assert_eq!(recycle_oldest(&pool).await, Recycled::Done);
    assert_eq!(text(&pool, "select stuck_reason from awa.ring").await, "");
}

#[tokio::test]
async fn the_current_segment_and_a_younger_one_are_not_recycled() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 1, "2 days").await;
    assert_eq!(recycle(&pool, 0, i64::MAX, MOVE_MAX).await.expect("an answer"), Recycled::Raced);
    advance(&pool).await;
    assert_eq!(recycle(&pool, 1, i64::MAX, MOVE_MAX).await.expect("an answer"), Recycled::Raced);
}

#[tokio::test]
async fn a_mark_stays_below_what_an_open_transaction_may_still_commit() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 5, "0").await;
    let mut open = begin(&database).await;
    run(&mut open, "insert into awa.jobs_hot (kind) values ('late')").await;
    completed(&pool, 5, "0").await;
    let mut mark = SettledMark::default();
    // The writer is set aside in the course of this: the mark may rise up to its rows, never above.
    for _ in 0..500 {
        mark.observe(&pool).await.expect("an observation");
        assert!(mark.seq() < 6, "the open row has seq 6");
    }
    run(&mut open, "commit").await;
    while mark.seq() < 11 {
        mark.observe(&pool).await.expect("an observation");
    }
}

#[tokio::test]
async fn a_transaction_that_touches_no_job_table_holds_no_mark_back() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut idle = begin(&database).await;
    run(&mut idle, "select pg_current_xact_id()").await;
    completed(&pool, 5, "0").await;
    let mut mark = SettledMark::default();
    while mark.seq() < 5 {
        mark.observe(&pool).await.expect("an observation");
    }
}

#[tokio::test]
async fn a_crash_makes_a_mark_start_anew() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    completed(&pool, 5, "0").await;
    let mut mark = SettledMark::default();
    while mark.seq() < 5 {
        mark.observe(&pool).await.expect("an observation");
    }
    // What a crash does to the unlogged table.
    run(&pool, "truncate awa.incarnation").await;
    mark.observe(&pool).await.expect("an observation");
    assert_eq!(mark.seq(), 0);
}
