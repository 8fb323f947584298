//! The list of claimed batches: what runs is listed throughout (I14), what has ended goes.

use std::time::Duration;

use awa_storage::{
    ring::{EmptiedClaims, empty_claims, switch_claims},
    settle::{Completion, complete_many},
    testing::TestDatabase,
};
use sqlx::PgPool;

use crate::scene::{begin, claim, count, registered, run, running, text};

const NEWER_MAX: u32 = 10;

/// Running attempts that no batch names.
const UNLISTED: &str = "select count(*) from awa.jobs_hot as job where job.state = 'running' and not exists (
    select 1 from awa.active_claims as claim cross join unnest(claim.job_ids, claim.run_leases) as listed (id, run_lease)
     where listed.id = job.id and listed.run_lease = job.run_lease)";

async fn switch(pool: &PgPool) -> bool {
    switch_claims(pool, 1, Duration::ZERO).await.expect("an answer")
}

async fn empty(pool: &PgPool) -> EmptiedClaims {
    empty_claims(pool, NEWER_MAX).await.expect("an answer")
}

#[tokio::test]
async fn what_runs_is_copied_and_what_has_ended_goes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, done) = running(&pool, "done", 20).await;
    let (_, half) = running(&pool, "half", 20).await;
    let ended = done.into_iter().chain(half.into_iter().take(15));
    let ended: Vec<_> = ended.map(|job| Completion { lease: job.lease, result: None }).collect();
    complete_many(&pool, &ended).await.expect("answers");
    assert!(switch(&pool).await);
    assert_eq!(empty(&pool).await, EmptiedClaims::Done { looked: 2, copied: 1 });
    let left = "select part || ' ' || cardinality(job_ids) || ' ' || cardinality(run_leases) from awa.active_claims";
    assert_eq!(text(&pool, left).await, "1 5 5");
    assert_eq!(count(&pool, UNLISTED).await, 0);
    // And back again.
    assert!(switch(&pool).await);
    assert_eq!(empty(&pool).await, EmptiedClaims::Done { looked: 1, copied: 1 });
    assert_eq!(text(&pool, left).await, "0 5 5");
}

#[tokio::test]
async fn what_runs_is_copied_also_where_the_numbers_of_the_jobs_lie_far_apart() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, mut jobs) = running(&pool, "before", 3).await;
    run(&pool, "select setval('awa.job_id', 5000000)").await;
    let (_, after) = running(&pool, "after", 3).await;
    let ended: Vec<_> = jobs.drain(1..).chain(after).map(|job| Completion { lease: job.lease, result: None }).collect();
    complete_many(&pool, &ended).await.expect("answers");
    assert!(switch(&pool).await);
    assert_eq!(empty(&pool).await, EmptiedClaims::Done { looked: 2, copied: 1 });
    assert_eq!(count(&pool, UNLISTED).await, 0);
}

#[tokio::test]
async fn nothing_is_switched_before_it_is_due_or_to_a_part_in_use() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    assert!(!switch(&pool).await, "an empty list stays where it is");
    running(&pool, "noop", 5).await;
    assert!(!switch_claims(&pool, 1 << 30, Duration::ZERO).await.expect("an answer"));
    assert!(!switch_claims(&pool, 1, Duration::from_secs(3600)).await.expect("an answer"));
    assert!(switch(&pool).await);
    running(&pool, "noop", 5).await;
    assert!(!switch(&pool).await, "the other part is not empty");
}

/// A claim that read the old part before the switch, and commits after it.
#[tokio::test]
async fn a_claim_in_flight_is_listed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "first", 5).await;
    run(&pool, "insert into awa.jobs_hot (kind) values ('late')").await;
    let mut claiming = begin(&database).await;
    run(
        &mut claiming,
        "with claimed as (update awa.jobs_hot set state = 'running', run_lease = 1, attempted_at = now() where kind = 'late' returning id)
         insert into awa.active_claims (part, segment, worker, job_ids, run_leases)
         select 0, 0, gen_random_uuid(), array[id], array[1] from claimed",
    )
    .await;
    assert!(switch(&pool).await);
    assert_eq!(empty(&pool).await, EmptiedClaims::Busy);
    assert_eq!(count(&pool, "select count(*) from awa.active_claims").await, 1);
    run(&mut claiming, "commit").await;
    assert_eq!(empty(&pool).await, EmptiedClaims::Done { looked: 2, copied: 2 });
    assert_eq!(count(&pool, UNLISTED).await, 0);
}

#[tokio::test]
async fn a_reader_that_stays_makes_nobody_wait() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 5).await;
    assert!(switch(&pool).await);
    let mut reader = begin(&database).await;
    run(&mut reader, "select count(*) from awa.active_claims").await;
    assert_eq!(empty(&pool).await, EmptiedClaims::Busy);
    run(&mut reader, "commit").await;
    assert_eq!(empty(&pool).await, EmptiedClaims::Done { looked: 1, copied: 1 });
}

/// Two claimers and a keeper at work together: nothing that runs is ever missing from the list.
#[tokio::test]
async fn under_concurrent_claims_every_attempt_stays_listed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.jobs_hot (kind) select 'a' from generate_series(1, 300)").await;
    run(&pool, "insert into awa.jobs_hot (kind) select 'b' from generate_series(1, 300)").await;
    let claimer = |kind: &'static str| {
        let pool = pool.clone();
        async move {
            let worker = registered(&pool).await;
            for _ in 0..30 {
                let mut jobs = claim(&pool, worker, kind, 10).await;
                let ended = jobs.drain(..7).map(|job| Completion { lease: job.lease, result: None });
                complete_many(&pool, &ended.collect::<Vec<_>>()).await.expect("answers");
            }
        }
    };
    let claimers = tokio::spawn(futures_util::future::join(claimer("a"), claimer("b")));
    let mut emptied = 0;
    while !claimers.is_finished() {
        switch(&pool).await;
        emptied += usize::from(matches!(empty(&pool).await, EmptiedClaims::Done { .. }));
        assert_eq!(count(&pool, UNLISTED).await, 0);
    }
    claimers.await.expect("both have ended");
    assert!(emptied > 0);
    while empty(&pool).await != EmptiedClaims::Empty {}
    assert_eq!(count(&pool, UNLISTED).await, 0);
    let twice = "select count(*) - count(distinct (listed.id, listed.run_lease)) from awa.active_claims
                  cross join unnest(job_ids, run_leases) as listed (id, run_lease)";
    assert_eq!(count(&pool, twice).await, 0);
}
