//! The audit: it finds what nobody else would, mends what can be mended, and finds nothing where nothing is wrong.

use std::time::Duration;

use awa_model::JobId;
use awa_storage::{
    audit::{AuditCursor, Audited, audit, reset_marks},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{age_attempts, claim, count, insert_full, rescue_all, run, running, states};

const SILENCE: Duration = Duration::from_secs(180);

/// One walk over the whole plane, in small pieces.
async fn walk(pool: &PgPool) -> Audited {
    let mut sum = Audited { looked: 0, passed_by: vec![], unlisted: vec![], doubled: vec![], next: None };
    let mut from = Some(AuditCursor::default());
    while let Some(place) = from {
        let piece = audit(pool, place, 7, SILENCE).await.expect("a piece");
        sum.looked += piece.looked;
        sum.passed_by.extend(piece.passed_by);
        sum.unlisted.extend(piece.unlisted);
        sum.doubled.extend(piece.doubled);
        from = piece.next;
    }
    sum
}

#[tokio::test]
async fn a_healthy_plane_shows_nothing_and_every_row_is_looked_at() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    insert_full(&pool, "jobs_hot", "available").await;
    run(&pool, "insert into awa.jobs_hot_parked (kind, state) values ('noop', 'waiting_external')").await;
    running(&pool, "noop", 20).await;
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now())").await;
    let found = walk(&pool).await;
    assert_eq!((found.looked, found.finds()), (22, 0));
}

#[tokio::test]
async fn an_available_job_below_its_mark_gets_back_into_its_lane() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind) select 'noop' from generate_series(1, 3)").await;
    run(&pool, "insert into awa.lane_marks (queue, priority, seq) values ('default', 2, 2)").await;
    assert_eq!(walk(&pool).await.passed_by, [JobId::new(1), JobId::new(2)]);
    assert_eq!(walk(&pool).await.finds(), 0);
    let worker = crate::scene::registered(&pool).await;
    assert_eq!(claim(&pool, worker, "noop", 3).await.len(), 3);
}

#[tokio::test]
async fn a_silent_attempt_that_is_listed_nowhere_is_handed_back() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 3).await;
    run(&pool, "delete from awa.workers").await;
    run(&pool, "truncate awa.active_claims").await;
    let (_, listed) = running(&pool, "listed", 2).await;
    assert_eq!(walk(&pool).await.finds(), 0, "not silent for long enough");
    age_attempts(&pool, "200 seconds").await;
    assert_eq!(rescue_all(&pool).await.jobs.len(), listed.len());
    assert_eq!(walk(&pool).await.unlisted.len(), 3);
    assert_eq!(states(&pool).await, "retryable 5");
    assert_eq!(walk(&pool).await.finds(), 0);
}

#[tokio::test]
async fn a_job_that_exists_twice_is_told() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot_0 (id, kind) values (77, 'noop'), (78, 'noop'), (79, 'noop')").await;
    run(&pool, "insert into awa.jobs_hot_3 (id, kind) values (77, 'noop')").await;
    run(&pool, "insert into awa.scheduled_jobs (id, kind, run_at) values (78, 'noop', now())").await;
    let mut doubled = walk(&pool).await.doubled;
    doubled.sort();
    assert_eq!(doubled, [77, 77, 78].map(JobId::new));
}

#[tokio::test]
async fn after_an_import_the_counters_are_above_all_numbers_and_marks_are_gone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.lane_marks (queue, priority, seq) values ('default', 2, 20)").await;
    run(&pool, "insert into awa.incarnation default values").await;
    run(&pool, "create table public.before as select * from awa.incarnation").await;
    run(&pool, "insert into awa.jobs_hot_0 (id, seq, kind) values (900, 800, 'noop')").await;
    run(&pool, "insert into awa.scheduled_jobs (id, kind, run_at) values (950, 'noop', now())").await;
    assert_eq!(reset_marks(&pool).await.expect("an answer"), 1);
    assert_eq!(count(&pool, "select nextval('awa.job_seq')").await, 801);
    assert_eq!(count(&pool, "select nextval('awa.job_id')").await, 951);
    assert_eq!(count(&pool, "select count(*) from awa.incarnation join public.before using (id)").await, 0);
    assert_eq!(count(&pool, "select count(*) from awa.lane_marks").await, 0);
}
