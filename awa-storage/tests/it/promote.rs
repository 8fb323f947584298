//! Promotion: what is due moves, in order, with everything it has; what cannot move stops nobody.

use std::time::Duration;

use awa_storage::{
    promote::{PromoteCursor, Promoted, promote},
    testing::TestDatabase,
};
use sqlx::{PgPool, postgres::PgListener};

use crate::scene::{begin, changed, count, insert_full, poison, row, run, states, text};

async fn promote_all(pool: &PgPool) -> Promoted {
    promote(pool, &mut PromoteCursor::default(), 1000).await.expect("a batch")
}

/// Inserts jobs that were due 1, 2, … seconds ago, in no order.
async fn due(pool: &PgPool, number: usize) {
    let statement = format!(
        "insert into awa.scheduled_jobs (kind, run_at, args)
         select 'noop', now() - make_interval(secs => place), to_jsonb(place)
           from generate_series(1, {number}) as place order by md5(place::text)"
    );
    run(pool, &statement).await;
}

#[tokio::test]
async fn the_oldest_due_comes_first_over_several_batches() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, 25).await;
    let mut cursor = PromoteCursor::default();
    let mut batches = Vec::new();
    loop {
        let batch = promote(&pool, &mut cursor, 10).await.expect("a batch");
        batches.push(batch.promoted);
        if batch.next_due != Some(Duration::ZERO) {
            break;
        }
    }
    assert_eq!(batches, [10, 10, 5]);
    let order = text(&pool, "select array_agg(args::text::integer order by seq) from awa.jobs_hot").await;
    let expected: Vec<String> = (1..=25).rev().map(|place: i32| place.to_string()).collect();
    assert_eq!(order, format!("{{{}}}", expected.join(",")));
}

/// LOCK-06: whatever comes in meanwhile, the longest wait grows shorter with each batch.
#[tokio::test]
async fn the_oldest_due_comes_first_under_inflow() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let due = |number: i64, from: &str, to: &str| {
        format!(
            "insert into awa.scheduled_jobs (kind, priority, run_at)
             select 'noop', 1 + place % 4, now() - interval '{from}' + (interval '{from}' - interval '{to}') * place / {number}
               from generate_series(1, {number}) as place"
        )
    };
    run(&pool, &due(2_000, "2 hours", "1 hour")).await;
    let mut cursor = PromoteCursor::default();
    let mut oldest = text(&pool, "select min(run_at) from awa.scheduled_jobs").await;
    for batch in 1..=10 {
        run(&pool, &due(150, "1 minute", "0")).await;
        assert_eq!(promote(&pool, &mut cursor, 200).await.expect("a batch").promoted, 200);
        let next = text(&pool, "select min(run_at) from awa.scheduled_jobs").await;
        let older =
            format!("select count(*) from awa.jobs_hot where run_at > '{next}' or '{next}'::timestamptz <= '{oldest}'");
        assert_eq!(count(&pool, &older).await, 0, "batch {batch}");
        oldest = next;
    }
    // Only newcomers are left.
    assert_eq!(
        count(&pool, "select count(*) from awa.scheduled_jobs where run_at < now() - interval '10 minutes'").await,
        0
    );
}

#[tokio::test]
async fn what_is_not_due_stays_and_tells_when_it_will_be() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert_eq!(promote_all(&pool).await.next_due, None);
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() + interval '1 hour'), ('noop', 'infinity')")
        .await;
    let batch = promote_all(&pool).await;
    assert_eq!(batch.promoted, 0);
    let next = batch.next_due.expect("one waits");
    assert!(next > Duration::from_secs(3500) && next <= Duration::from_secs(3600), "{next:?}");
}

#[tokio::test]
async fn every_column_survives() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = insert_full(&pool, "scheduled_jobs", "retryable").await;
    let before = row(&pool, id).await;
    assert_eq!(promote_all(&pool).await.promoted, 1);
    assert_eq!(changed(&before, &row(&pool, id).await), ["state"]);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 1);
}

#[tokio::test]
async fn a_bad_row_ends_with_its_error_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, 20).await;
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('bad', now() - interval '10 seconds')").await;
    poison(&pool, "jobs_hot_0").await;
    let batch = promote_all(&pool).await;
    assert_eq!((batch.promoted, batch.refused, batch.left_alone), (20, 1, 0));
    assert_eq!(states(&pool).await, "available 20, cancelled 1");
    let error = text(&pool, "select errors -> 0 ->> 'error' from awa.jobs where kind = 'bad'").await;
    assert_eq!(error, "cannot be promoted: poisoned");
}

#[tokio::test]
async fn a_row_that_can_go_nowhere_stays_and_stops_no_other() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, 20).await;
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) select 'bad', '2020-01-01' from generate_series(1, 5)")
        .await;
    poison(&pool, "jobs_hot_0").await;
    poison(&pool, "jobs_hot_parked").await;
    let mut cursor = PromoteCursor::default();
    let batch = promote(&pool, &mut cursor, 5).await.expect("a batch");
    assert_eq!((batch.promoted, batch.left_alone), (0, 5));
    // The head of the index is full of them, and the next batch begins behind them all the same.
    let batch = promote(&pool, &mut cursor, 100).await.expect("a batch");
    assert_eq!((batch.promoted, batch.left_alone), (20, 0));
    assert_eq!(states(&pool).await, "scheduled 5, available 20");
}

#[tokio::test]
async fn a_retry_without_attempts_left_ends_failed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at, state, attempt, max_attempts) values ('noop', now(), 'retryable', 3, 3)").await;
    assert_eq!(promote_all(&pool).await.refused, 1);
    assert_eq!(states(&pool).await, "failed 1");
}

/// A job whose key counts only from `available` on, which another job holds.
async fn duplicate(pool: &PgPool, states: i16) {
    run(
        pool,
        &format!(
            "insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states)
             values ('late', now(), decode(md5('key'), 'hex'), {states})"
        ),
    )
    .await;
}

const HOLDER: &str = "insert into awa.jobs_hot (kind, unique_key, unique_states)
                      values ('holder', decode(md5('key'), 'hex'), 6)";

#[tokio::test]
async fn a_job_whose_key_is_taken_ends_cancelled_and_the_holder_keeps_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, HOLDER).await;
    duplicate(&pool, 6).await;
    duplicate(&pool, 6 | 128).await;
    due(&pool, 3).await;
    let batch = promote_all(&pool).await;
    assert_eq!((batch.promoted, batch.refused), (3, 2));
    assert_eq!(states(&pool).await, "available 4, cancelled 2");
    let holder = "select job.kind from awa.job_unique_claims as claim join awa.jobs as job on job.id = claim.job_id";
    assert_eq!(text(&pool, holder).await, "holder");
    // One of the two would have to hold the key as a cancelled job: it gave it up instead, and says so.
    assert_eq!(count(&pool, "select count(*) from awa.jobs where kind = 'late' and unique_key is null").await, 1);
}

#[tokio::test]
async fn a_key_that_an_open_transaction_holds_delays_its_own_job_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut open = begin(&database).await;
    run(&mut open, HOLDER).await;
    duplicate(&pool, 6).await;
    due(&pool, 3).await;
    let batch = promote_all(&pool).await;
    assert_eq!((batch.promoted, batch.refused, batch.left_alone), (3, 0, 1));
    run(&mut open, "rollback").await;
    assert_eq!(promote_all(&pool).await.promoted, 1);
}

#[tokio::test]
async fn two_passes_at_once_promote_each_job_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    due(&pool, 50).await;
    let mut first = begin(&database).await;
    assert_eq!(count(&mut first, "select promoted::bigint from awa.promote(null, null, 30)").await, 30);
    assert_eq!(promote_all(&pool).await.promoted, 20);
    run(&mut first, "commit").await;
    assert_eq!(count(&pool, "select count(distinct id) from awa.jobs").await, 50);
    assert_eq!(states(&pool).await, "available 50");
}

#[tokio::test]
async fn a_look_that_finds_nothing_takes_no_transaction_id() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() + interval '1 hour')").await;
    let mut idle = begin(&database).await;
    run(&mut idle, "select awa.promote(null, null, 100)").await;
    assert_eq!(text(&mut idle, "select pg_current_xact_id_if_assigned()").await, "");
}

#[tokio::test]
async fn each_queue_is_woken_once() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    let mut listener = PgListener::connect_with(&pool).await.expect("a listener");
    listener.listen("awa").await.expect("listening");
    // Somebody sleeps on both queues.
    let mut sleeper = database.connect().await;
    run(&mut sleeper, "select pg_advisory_lock(1096237385, hashtext(queue)) from unnest(array['a', 'b']) as queue")
        .await;
    run(&pool, "insert into awa.scheduled_jobs (kind, queue, run_at) select 'noop', queue, now() from unnest(array['a', 'b', 'a']) as queue").await;
    assert_eq!(promote_all(&pool).await.promoted, 3);
    run(&pool, "notify awa, 'the end'").await;
    let mut heard = Vec::new();
    loop {
        let notification = listener.recv().await.expect("a notification");
        if notification.payload() == "the end" {
            break;
        }
        heard.push(notification.payload().to_owned());
    }
    heard.sort();
    let mut expected = vec![text(&pool, "select hashtext('a')").await, text(&pool, "select hashtext('b')").await];
    expected.sort();
    assert_eq!(heard, expected);
}
