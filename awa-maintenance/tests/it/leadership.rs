//! The election: one leads, trust ends before the term does, and a lost term stays lost.

use std::time::Duration;

use awa_maintenance::Elector;
use awa_model::WorkerId;
use awa_storage::testing::TestDatabase;
use tokio::time;

use crate::support::run;

const LASTS: Duration = Duration::from_secs(60);

fn elector(database: &TestDatabase) -> Elector {
    Elector::new(database.pool(), WorkerId::random(), LASTS)
}

#[tokio::test]
async fn one_leads_and_the_next_follows_at_once_when_it_resigns() {
    let database = TestDatabase::new().await;
    let (mut first, mut second) = (elector(&database), elector(&database));
    assert!(first.stand().await.expect("an answer"));
    assert!(!second.stand().await.expect("an answer"));
    assert!(first.stand().await.expect("an answer"), "renewed");
    assert_eq!((first.trust().holds(), second.trust().holds()), (true, false));
    first.resign().await.expect("an answer");
    assert!(second.stand().await.expect("an answer"));
    assert_eq!((first.trust().holds(), second.trust().holds()), (false, true));
}

/// LEADER-01.
#[tokio::test]
async fn who_wakes_up_after_its_term_leads_no_longer() {
    let database = TestDatabase::new().await;
    let (mut slept, mut other) = (elector(&database), elector(&database));
    assert!(slept.stand().await.expect("an answer"));
    run(&database.pool(), "update awa.leader set expires_at = now()").await;
    assert!(other.stand().await.expect("an answer"));
    assert!(!slept.stand().await.expect("an answer"));
    assert_eq!((slept.trust().holds(), other.trust().holds()), (false, true));
}

#[tokio::test]
async fn trust_ends_before_the_term_does() {
    let database = TestDatabase::new().await;
    let mut elector = elector(&database);
    assert!(elector.stand().await.expect("an answer"));
    time::pause();
    time::advance(LASTS * 3 / 4).await;
    assert!(elector.trust().holds());
    time::advance(LASTS / 10).await;
    assert!(!elector.trust().holds());
}

#[tokio::test]
async fn while_the_database_is_away_the_term_is_trusted_as_long_as_it_was() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut elector = Elector::new(pool.clone(), WorkerId::random(), LASTS);
    assert!(elector.stand().await.expect("an answer"));
    pool.close().await;
    elector.stand().await.expect_err("the pool is closed");
    assert!(elector.trust().holds());
    time::pause();
    time::advance(LASTS).await;
    assert!(!elector.trust().holds());
}
