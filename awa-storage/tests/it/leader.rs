//! Terms: one holder at a time by the database's clock, and a former holder changes nothing.

use std::time::Duration;

use awa_model::WorkerId;
use awa_storage::{
    Guarded,
    leader::{Term, acquire, renew, resign},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{begin, run, text};

const LASTS: Duration = Duration::from_secs(60);

async fn stand(pool: &PgPool) -> Option<Term> {
    acquire(pool, "maintenance", WorkerId::random(), LASTS).await.expect("an answer")
}

async fn expire(pool: &PgPool) {
    run(pool, "update awa.leader set expires_at = now() - interval '1 second'").await;
}

#[tokio::test]
async fn one_holds_the_duty_until_the_term_is_over() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let first = stand(&pool).await.expect("free");
    assert!(stand(&pool).await.is_none());
    assert_eq!(renew(&pool, &first, LASTS).await.expect("an answer"), Guarded::Applied(()));
    expire(&pool).await;
    let second = stand(&pool).await.expect("free again");
    assert_eq!((first.number(), second.number()), (1, 2));
}

/// LEADER-01.
#[tokio::test]
async fn a_former_leader_neither_renews_nor_resigns() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let first = stand(&pool).await.expect("free");
    expire(&pool).await;
    assert_eq!(
        renew(&pool, &first, LASTS).await.expect("an answer"),
        Guarded::Lost,
        "over, though nobody has taken it"
    );
    let second = stand(&pool).await.expect("free again");
    assert_eq!(renew(&pool, &first, LASTS).await.expect("an answer"), Guarded::Lost);
    assert_eq!(resign(&pool, first).await.expect("an answer"), Guarded::Lost);
    assert_eq!(renew(&pool, &second, LASTS).await.expect("an answer"), Guarded::Applied(()));
}

#[tokio::test]
async fn who_resigns_frees_the_duty_at_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let first = stand(&pool).await.expect("free");
    assert_eq!(resign(&pool, first).await.expect("an answer"), Guarded::Applied(()));
    assert!(stand(&pool).await.is_some());
}

#[tokio::test]
async fn of_many_that_stand_at_once_one_is_elected() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for round in 1..=5 {
        let terms = futures_util::future::join_all((0..8).map(|_| stand(&pool))).await;
        let elected: Vec<_> = terms.into_iter().flatten().collect();
        assert_eq!(elected.iter().map(Term::number).collect::<Vec<_>>(), [round]);
        expire(&pool).await;
    }
}

#[tokio::test]
async fn asking_in_vain_takes_no_transaction_id() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _held = stand(&pool).await.expect("free");
    let mut follower = begin(&database).await;
    run(&mut follower, "select awa.acquire_leadership('maintenance', gen_random_uuid(), 60)").await;
    assert_eq!(text(&mut follower, "select pg_current_xact_id_if_assigned()").await, "");
}
