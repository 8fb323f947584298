//! Producers of the same keys beside one another, beside workers, promotion and operators: nobody waits in a circle, every
//! enqueue is answered, and at the end a key is held if and only if its job is in a state of its rule (I4).

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use awa_model::{Due, Inserted, OnConflict, PreparedJob, Unique};
use awa_storage::{
    Claimed, Error,
    enqueue::{enqueue, enqueue_copy, enqueue_many},
    promote::{PromoteCursor, promote},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
    unique,
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use sqlx::{Connection as _, PgPool};

use crate::producing::{backend, blocked, count, finish, job, new};
use crate::support::{claim, cursors, kind};

/// A job that is like all others with the same `key`.
fn keyed(key: u64, on_conflict: OnConflict) -> PreparedJob {
    PreparedJob {
        kind: kind(),
        unique: Some(Unique::until_finished().on_conflict(on_conflict)),
        ..job(&format!(r#"{{"key":{key}}}"#))
    }
}

#[tokio::test]
async fn batches_that_replace_the_same_jobs_in_opposite_orders_wait_in_a_line() {
    let database = TestDatabase::new().await;
    let (pool, mut first, mut second) = (database.pool(), database.connect().await, database.connect().await);
    let waiting = backend(&mut second).await;
    let skip = [1, 2, 3].map(|key| keyed(key, OnConflict::Skip));
    let ids: Vec<_> = enqueue_many(&pool, &skip).await.expect("enqueued").into_iter().map(new).collect();
    let mut tx = first.begin().await.expect("the server answers");
    let answers = enqueue_many(&mut *tx, &[3, 1].map(|key| keyed(key, OnConflict::Replace))).await.expect("enqueued");
    assert_eq!(answers, [ids[2], ids[0]].map(Inserted::Replaced));
    let other =
        tokio::spawn(
            async move { enqueue_many(&mut second, &[1, 2, 3].map(|key| keyed(key, OnConflict::Replace))).await },
        );
    blocked(&pool, waiting).await;
    tx.commit().await.expect("the server answers");
    let answers = other.await.expect("no panic").expect("no deadlock");
    assert_eq!(answers, ids.into_iter().map(Inserted::Replaced).collect::<Vec<_>>());
}

/// The key is free when the batch looks, and taken when it wants it: all it has locked by then is given back, it goes round
/// again, and locks in order.
#[tokio::test]
async fn key_that_is_taken_meanwhile_is_replaced_in_another_round() {
    let database = TestDatabase::new().await;
    let (pool, mut first, mut second) = (database.pool(), database.connect().await, database.connect().await);
    let waiting = backend(&mut second).await;
    let held = new(enqueue(&pool, &keyed(1, OnConflict::Skip)).await.expect("enqueued"));
    let mut tx = first.begin().await.expect("the server answers");
    let late = new(enqueue(&mut *tx, &keyed(2, OnConflict::Skip)).await.expect("enqueued"));
    let other =
        tokio::spawn(
            async move { enqueue_many(&mut second, &[1, 2].map(|key| keyed(key, OnConflict::Replace))).await },
        );
    blocked(&pool, waiting).await;
    tx.commit().await.expect("the server answers");
    let answers = other.await.expect("no panic").expect("enqueued");
    assert_eq!(answers, [held, late].map(Inserted::Replaced));
}

const KEYS: u64 = 8;

fn policy(random: &mut StdRng) -> OnConflict {
    [OnConflict::Skip, OnConflict::Replace, OnConflict::Error][random.random_range(0..3)]
}

/// One producer: batches that overlap, all policies, every way in, one in five rolled back.
async fn produce(database: &TestDatabase, seed: u64, rounds: usize) {
    let mut random = StdRng::seed_from_u64(seed);
    let mut connection = database.connect().await;
    for _ in 0..rounds {
        let batch: Vec<_> = (0..random.random_range(1..6))
            .map(|_| {
                let due = if random.random_bool(0.3) { Due::In(Duration::from_millis(1)) } else { Due::Now };
                PreparedJob { due, ..keyed(random.random_range(0..KEYS), policy(&mut random)) }
            })
            .collect();
        let mut tx = connection.begin().await.expect("the server answers");
        let answers = match random.random_range(0..3) {
            0 => enqueue(&mut *tx, &batch[0]).await.map(|answer| vec![answer]),
            1 => enqueue_copy(&mut tx, &batch).await,
            _ => enqueue_many(&mut *tx, &batch).await,
        };
        match answers {
            Ok(answers) => {
                assert!(!answers.is_empty() && answers.len() <= batch.len());
                let commits = random.random_bool(0.8);
                if commits { tx.commit().await } else { tx.rollback().await }.expect("the server answers");
            }
            // The policy error; whoever else is at it is never a reason to fail.
            Err(Error::Duplicate { .. } | Error::DuplicateInCall { .. }) => {
                tx.rollback().await.expect("the server answers");
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
}

/// One worker: ends what it claims in any way.
async fn work(pool: &PgPool, seed: u64, producing: &AtomicUsize) {
    let mut random = StdRng::seed_from_u64(seed);
    let cursors = cursors(pool).await;
    loop {
        let over = producing.load(Ordering::SeqCst) == 0;
        let claimed = claim(&cursors, pool, 5).await;
        let settled = cursors.tick(pool).await.expect("a tick").settled;
        if over && settled && claimed.is_empty() {
            return;
        }
        let (completed, ended): (Vec<Claimed>, Vec<Claimed>) =
            claimed.into_iter().partition(|_| over || random.random_bool(0.5));
        let completions: Vec<_> =
            completed.into_iter().map(|job| Completion { lease: job.lease, result: None }).collect();
        let settlements: Vec<_> = ended
            .into_iter()
            .map(|job| {
                let verdict = match random.random_range(0..4) {
                    0 => Verdict::Retry { after: Some(Duration::ZERO), error: "again".to_owned() },
                    1 => Verdict::Snooze { after: Duration::from_millis(1) },
                    2 => Verdict::Fail { error: "no".to_owned() },
                    _ => Verdict::Release,
                };
                Settlement { lease: job.lease, verdict, progress: None }
            })
            .collect();
        complete_many(pool, &completions).await.expect("nobody waits in a circle");
        settle_many(pool, &settlements).await.expect("nobody waits in a circle");
    }
}

/// Promotes what is due, and calls off whoever holds some key.
async fn disturb(pool: &PgPool, producing: &AtomicUsize) {
    let mut key = 0;
    while producing.load(Ordering::SeqCst) > 0 {
        promote(pool, &mut PromoteCursor::default(), 100).await.expect("promoted");
        key = (key + 1) % KEYS;
        let _ = unique::cancel(pool, &keyed(key, OnConflict::Skip), None).await.expect("answered");
    }
}

async fn all_at_once(producers: u64, rounds: usize) {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let producing = AtomicUsize::new(usize::try_from(producers).expect("few"));
    let producers = futures_util::future::join_all((0..producers).map(|seed| {
        let (database, producing) = (&database, &producing);
        async move {
            produce(database, seed, rounds).await;
            producing.fetch_sub(1, Ordering::SeqCst);
        }
    }));
    tokio::join!(producers, work(&pool, 91, &producing), work(&pool, 92, &producing), disturb(&pool, &producing));
    let wrong = "select count(*) from awa.job_unique_claims as claim
                   full join (select id, unique_key from awa.jobs
                               where unique_key is not null and unique_states & awa.state_bit(state) <> 0) as job
                          on job.id = claim.job_id and job.unique_key = claim.unique_key
                  where job.id is null or claim.job_id is null";
    let wrong: i64 = sqlx::query_scalar(wrong).fetch_one(&pool).await.expect("the server answers");
    assert_eq!(wrong, 0, "I4");
    assert!(count(&pool, "awa.jobs").await > 0);
}

#[tokio::test]
async fn producers_workers_and_operators_of_the_same_keys_never_wait_in_a_circle() {
    all_at_once(4, 60).await;
}

mod long {
    #[tokio::test]
    async fn producers_workers_and_operators_of_the_same_keys_never_wait_in_a_circle() {
        super::all_at_once(6, 2000).await;
    }
}

/// Two keys in ascending order, as args.
async fn two_keys(pool: &PgPool) -> [u64; 2] {
    let sorted: Vec<i64> = sqlx::query_scalar(
        "select n::bigint from generate_series(1, 2) as n
          order by awa.unique_key('noop', null, jsonb_build_object('key', n), null, null, null)",
    )
    .fetch_all(pool)
    .await
    .expect("keys");
    [sorted[0], sorted[1]].map(|key| u64::try_from(key).expect("a key"))
}

/// A batch passes the first key by, since it is held, and waits for the second; the first is given back meanwhile, and another
/// batch takes it and waits for the second too. Whoever gets that one must not wait for the first with it in hand.
#[tokio::test]
async fn batch_that_finds_a_lower_key_given_back_begins_again_with_none_in_hand() {
    for _ in 0..6 {
        let database = TestDatabase::new().await;
        let pool = database.pool();
        let keys = two_keys(&pool).await;
        let batch = keys.map(|key| keyed(key, OnConflict::Skip));
        let held = new(enqueue(&pool, &batch[0]).await.expect("enqueued"));
        let mut open = database.connect().await;
        let mut tx = open.begin().await.expect("the server answers");
        let _ = enqueue(&mut *tx, &batch[1]).await.expect("enqueued");
        let (mut first, mut second) = (database.connect().await, database.connect().await);
        let (waiting, other) = (backend(&mut first).await, backend(&mut second).await);
        let one = batch.clone();
        let one = tokio::spawn(async move { enqueue_many(&mut first, &one).await });
        blocked(&pool, waiting).await;
        finish(&pool, held).await;
        let two = tokio::spawn(async move { enqueue_many(&mut second, &batch).await });
        blocked(&pool, other).await;
        tx.rollback().await.expect("the server answers");
        let (one, two) = tokio::join!(one, two);
        let ids = |answers: Result<Vec<Inserted>, Error>| -> Vec<_> {
            answers.expect("no deadlock").into_iter().map(|answer| answer.id()).collect()
        };
        assert_eq!(ids(one.expect("no panic")), ids(two.expect("no panic")), "one of them got both");
    }
}
