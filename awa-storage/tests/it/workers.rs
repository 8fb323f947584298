//! The registry of processes.

use std::time::Duration;

use awa_model::WorkerId;
use awa_storage::{
    Guarded,
    testing::TestDatabase,
    workers::{WorkerInfo, beat, forget_dead, list, register, unregister},
};

use crate::scene::{registered, run, text};

#[tokio::test]
async fn a_process_is_known_until_it_signs_off() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let worker = registered(&pool).await;
    assert_eq!(beat(&pool, worker).await.expect("an answer"), Guarded::Applied(()));
    assert_eq!(unregister(&pool, worker).await.expect("an answer"), Guarded::Applied(()));
    assert_eq!(beat(&pool, worker).await.expect("an answer"), Guarded::Lost);
    assert_eq!(unregister(&pool, worker).await.expect("an answer"), Guarded::Lost);
    assert_eq!(list(&pool).await.expect("a list"), []);
}

#[tokio::test]
async fn registering_again_changes_what_is_known_and_creates_queues_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut info = WorkerInfo {
        id: WorkerId::random(),
        name: "a".to_owned(),
        host: "h".to_owned(),
        pid: 7,
        version: "1".to_owned(),
        queues: vec!["b".to_owned(), "a".to_owned(), "a".to_owned()],
        kinds: vec!["k".to_owned()],
    };
    register(&pool, &info).await.expect("registered");
    run(&pool, "update awa.queues set paused = true where name = 'a'").await;
    info.version = "2".to_owned();
    register(&pool, &info).await.expect("registered");
    let known = list(&pool).await.expect("a list");
    assert_eq!(known.iter().map(|worker| &worker.info).collect::<Vec<_>>(), [&info]);
    assert_eq!(
        text(&pool, "select string_agg(name || ' ' || paused, ', ' order by name) from awa.queues").await,
        "a true, b false"
    );
}

#[tokio::test]
async fn only_those_not_seen_for_long_are_forgotten() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    registered(&pool).await;
    run(&pool, "update awa.workers set last_seen_at = now() - interval '2 hours'").await;
    let alive = registered(&pool).await;
    assert_eq!(forget_dead(&pool, Duration::from_secs(3600), 10).await.expect("an answer"), 1);
    let known = list(&pool).await.expect("a list");
    assert_eq!(known.iter().map(|worker| worker.info.id).collect::<Vec<_>>(), [alive]);
    assert!(known[0].silent_for < Duration::from_secs(3600));
}
