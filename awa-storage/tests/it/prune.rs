//! Retention of parked rows: each state and queue by its own rule, past whatever is kept.

use awa_model::JobState;
use awa_storage::{
    prune::{PruneCursor, prune_parked},
    settle::{Settlement, Verdict, settle_many},
    testing::TestDatabase,
};
use sqlx::{PgPool, postgres::PgPoolOptions};

use crate::scene::{begin, claim, count, registered, run, states};

async fn parked(pool: &PgPool, state: &str, queue: &str, ago: &str, number: usize) {
    let statement = format!(
        "insert into awa.jobs_hot_parked (kind, queue, state, finalized_at)
         select 'noop', '{queue}', '{state}', now() - interval '{ago}' from generate_series(1, {number})"
    );
    run(pool, &statement).await;
}

/// Prunes one state until nothing more is due, and returns how many rows went.
async fn prune(pool: &PgPool, state: JobState, batch: u32) -> usize {
    let (mut from, mut pruned) = (PruneCursor::default(), 0);
    loop {
        let step = prune_parked(pool, state, from, batch).await.expect("a batch");
        assert!(step.pruned <= batch as usize);
        pruned += step.pruned;
        let Some(next) = step.next else { return pruned };
        from = next;
    }
}

/// RETAIN-02.
#[tokio::test]
async fn each_state_goes_by_its_own_rule() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "update awa.ring set completed_retention = '1 minute', failed_retention = '72 hours', cancelled_retention = '1 hour'").await;
    for state in ["completed", "failed", "cancelled"] {
        for ago in ["59 seconds", "61 seconds", "61 minutes", "73 hours"] {
            parked(&pool, state, "default", ago, 1).await;
        }
    }
    run(&pool, "insert into awa.jobs_hot_parked (kind, state) values ('noop', 'waiting_external')").await;
    assert_eq!(prune(&pool, JobState::Completed, 100).await, 3);
    assert_eq!(prune(&pool, JobState::Cancelled, 100).await, 2);
    assert_eq!(prune(&pool, JobState::Failed, 100).await, 1);
    assert_eq!(prune(&pool, JobState::WaitingExternal, 100).await, 0);
    assert_eq!(states(&pool).await, "waiting_external 1, completed 1, failed 3, cancelled 2");
}

/// A worker that serves a queue leaves a row of settings, all of them null: then the ring's rule holds.
#[tokio::test]
async fn a_queue_without_settings_of_its_own_goes_by_the_rule_of_the_ring() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.queues (name, failed_retention) values ('default', null), ('other', '20 days')").await;
    for state in ["completed", "failed", "cancelled"] {
        parked(&pool, state, "default", "8 days", 1).await;
        parked(&pool, state, "other", "8 days", 1).await;
    }
    assert_eq!(prune(&pool, JobState::Completed, 100).await, 2);
    assert_eq!(prune(&pool, JobState::Failed, 100).await, 1);
    assert_eq!(prune(&pool, JobState::Cancelled, 100).await, 2);
    assert_eq!(
        count(&pool, "select count(*) from awa.jobs_hot_parked where queue = 'other' and state = 'failed'").await,
        1
    );
}

#[tokio::test]
async fn a_queue_that_keeps_its_rows_hides_no_others() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.queues (name, failed_retention) values ('kept', '1000000 years'), ('short', '1 hour')")
        .await;
    parked(&pool, "failed", "kept", "20 days", 300).await;
    parked(&pool, "failed", "default", "10 days", 50).await;
    parked(&pool, "failed", "short", "2 hours", 20).await;
    parked(&pool, "failed", "default", "1 hour", 10).await;
    assert_eq!(prune(&pool, JobState::Failed, 7).await, 70);
    assert_eq!(states(&pool).await, "failed 310");
}

#[tokio::test]
async fn a_claim_goes_with_its_row_and_a_locked_row_is_passed_by() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot_parked (kind, state, finalized_at, unique_key, unique_states)
         select 'noop', 'failed', '2020-01-01', decode(md5(place::text), 'hex'), 255 from generate_series(1, 5) as place",
    )
    .await;
    let mut operator = begin(&database).await;
    run(&mut operator, "select 1 from awa.jobs_hot_parked where id = 3 for update").await;
    assert_eq!(prune(&pool, JobState::Failed, 100).await, 4);
    assert_eq!(count(&pool, "select job_id from awa.job_unique_claims").await, 3);
    run(&mut operator, "rollback").await;
    assert_eq!(prune(&pool, JobState::Failed, 100).await, 1);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0);
}

/// Whatever of a job somebody has locked, all others go in the same sweep, batch after batch.
#[tokio::test]
async fn a_job_in_use_ends_no_sweep_and_stops_no_other_job() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot_parked (id, kind, state, finalized_at, unique_key, unique_states)
         select -place, 'noop', 'failed', '2020-01-01', decode(md5(place::text), 'hex'), 255
           from generate_series(1, 40) as place",
    )
    .await;
    run(&pool, "insert into awa.callbacks (job_id, run_lease, due_at) select -place, 1, now() from generate_series(1, 40) as place").await;
    let mut others = begin(&database).await;
    for statement in [
        "select from awa.jobs_hot_parked where id = -15 for update",
        "select from awa.job_unique_claims where job_id = -25 for update",
        "select from awa.callbacks where job_id = -35 for update",
    ] {
        run(&mut others, statement).await;
    }
    assert_eq!(prune(&pool, JobState::Failed, 10).await, 37);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 3);
    assert_eq!(count(&pool, "select count(*) from awa.callbacks").await, 3);
    run(&mut others, "rollback").await;
    assert_eq!(prune(&pool, JobState::Failed, 10).await, 3);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 0);
}

/// The key is another job's by now, and who changes that one has the claim locked.
#[tokio::test]
async fn a_key_that_the_job_does_not_hold_is_left_alone() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let columns = "kind, unique_key, unique_states";
    let values = "'noop', '\\x00112233445566778899aabbccddeeff', 31";
    run(
        &pool,
        &format!(
            "insert into awa.jobs_hot_parked ({columns}, state, finalized_at) values ({values}, 'failed', '2020-01-01')"
        ),
    )
    .await;
    run(&pool, &format!("insert into awa.jobs_hot ({columns}) values ({values})")).await;
    let mut operator = begin(&database).await;
    run(&mut operator, "select from awa.job_unique_claims for update").await;
    assert_eq!(prune(&pool, JobState::Failed, 10).await, 1);
    assert_eq!(count(&pool, "select count(*) from awa.job_unique_claims").await, 1);
}

/// A pool whose statements may take five seconds each, whatever they do.
async fn impatient(database: &TestDatabase) -> PgPool {
    let options = database.options().options([("statement_timeout", "5s")]);
    PgPoolOptions::new().max_connections(2).connect_with(options).await.expect("a pool")
}

/// Jobs that are enqueued, claimed and failed, which leaves them parked, until the other side has ended. Answers how many.
async fn load(pool: PgPool, mut until: tokio::sync::oneshot::Receiver<()>) -> i64 {
    let worker = registered(&pool).await;
    let mut failed = 0;
    while until.try_recv().is_err() {
        run(&pool, "select awa.enqueue_many('[{\"kind\": \"noop\"}, {\"kind\": \"noop\"}, {\"kind\": \"noop\"}]')")
            .await;
        let claimed = claim(&pool, worker, "noop", 3).await;
        let settlements: Vec<_> = claimed
            .into_iter()
            .map(|job| Settlement {
                lease: job.lease,
                verdict: Verdict::Fail { error: "x".to_owned() },
                progress: None,
            })
            .collect();
        let answers = settle_many(&pool, &settlements).await.expect("settled");
        assert!(answers.iter().all(awa_storage::Guarded::is_applied));
        failed += 3;
    }
    failed
}

const BYTES: &str = "select pg_total_relation_size('awa.jobs_hot_parked')";

/// RETAIN-01: so many rows past their retention beside as many that are kept, while jobs come, run and end. Batches are
/// bounded, each of them tells, no statement takes five seconds, and what is deleted makes room for what ends meanwhile.
async fn a_backlog_falls_with_every_batch(backlog: usize, batch: usize) {
    let database = TestDatabase::new().await;
    let pool = impatient(&database).await;
    parked(&database.pool(), "failed", "default", "8 days", backlog).await;
    parked(&database.pool(), "failed", "default", "1 day", backlog).await;
    let before = count(&pool, BYTES).await;
    let (ended, until) = tokio::sync::oneshot::channel();
    let loading = tokio::spawn(load(impatient(&database).await, until));
    let (mut from, mut left, mut batches, mut largest) = (PruneCursor::default(), backlog, 0, before);
    while left > 0 {
        let step =
            prune_parked(&pool, JobState::Failed, from, u32::try_from(batch).expect("small")).await.expect("a batch");
        assert_eq!(step.pruned, batch.min(left));
        left -= step.pruned;
        from = step.next.unwrap_or_default();
        batches += 1;
        // As autovacuum does, which a test cannot wait for.
        if batches % (backlog / batch / 10) == 0 {
            run(&database.pool(), "vacuum (index_cleanup on) awa.jobs_hot_parked").await;
            largest = largest.max(count(&pool, BYTES).await);
        }
    }
    ended.send(()).expect("somebody waits");
    let failed = loading.await.expect("loaded");
    assert!(failed > 0);
    assert_eq!(
        count(&pool, "select count(*) from awa.jobs_hot_parked").await,
        i64::try_from(backlog).expect("few") + failed
    );
    assert_eq!(
        count(&pool, "select count(*) from awa.jobs_hot_parked where finalized_at < now() - interval '7 days'").await,
        0
    );
    // Until the first room was there, what ended meanwhile took its own.
    assert!(largest < before + before / 5 + (2 << 20), "{before} bytes, then {largest}");
    println!("{batches} batches of {batch} beside {failed} jobs, {before} bytes, at most {largest}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_beside_load_falls_with_every_batch() {
    a_backlog_falls_with_every_batch(10_000, 100).await;
}

mod long {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_backlog_of_five_million_beside_load_falls_with_every_batch() {
        super::a_backlog_falls_with_every_batch(5_000_000, 1000).await;
    }
}
