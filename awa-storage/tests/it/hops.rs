//! LOST-06, STATE-10: a row with every column set goes through each way to end an attempt, and loses nothing.

use std::time::Duration;

use awa_model::JobState;
use awa_storage::{
    Claimed, Cursors, Guarded,
    promote::{PromoteCursor, promote},
    settle::{Completion, Settlement, Verdict, complete_many, settle_many},
    testing::TestDatabase,
};
use serde_json::Value;
use sqlx::PgPool;

use crate::restart::Restarting;
use crate::scene::{changed, count, insert_full, kinds, queue, registered, rescue_all, row, run};
use crate::support::claim_of;

/// Claims the one job there is, as a worker that beats once and has a deadline.
pub(crate) async fn claimed(pool: &PgPool) -> Claimed {
    let cursors = Cursors::new(registered(pool).await, &kinds(&["full"]), &[queue("lane")]);
    let mut jobs = claim_of(&cursors, pool, &[(queue("lane"), 1)]).await;
    run(pool, "update awa.jobs_hot set heartbeat_at = now() where state = 'running'").await;
    jobs.pop().expect("the job")
}

/// What differs between the row before the claim and after the attempt has ended like this.
async fn changed_by(restarting: &Restarting, verdict: Verdict, expected: JobState) -> Vec<String> {
    let (_, pool) = restarting.again().await;
    let id = insert_full(&pool, "jobs_hot", "available").await;
    let before = row(&pool, id).await;
    let settlement = Settlement { lease: claimed(&pool).await.lease, verdict, progress: None };
    assert_eq!(settle_many(&pool, &[settlement]).await.expect("settled"), [Guarded::Applied(expected)]);
    let after = row(&pool, id).await;
    for left in ["attempted_by", "heartbeat_at", "deadline_at"] {
        assert_eq!(after[left], Value::Null, "{left}");
    }
    changed(&before, &after)
}

#[tokio::test]
async fn an_attempt_that_ends_changes_only_what_its_end_says() {
    let retry = Verdict::Retry { after: None, error: "new".into() };
    let ends: [(Verdict, JobState, &[&str]); 5] = [
        (retry, JobState::Retryable, &["attempt", "attempted_at", "errors", "run_at", "run_lease", "state"]),
        (
            Verdict::Snooze { after: Duration::from_secs(9) },
            JobState::Scheduled,
            &["attempted_at", "run_at", "run_lease", "snoozes", "state"],
        ),
        (
            Verdict::Fail { error: "new".into() },
            JobState::Failed,
            &["attempt", "attempted_at", "errors", "finalized_at", "run_lease", "state"],
        ),
        (
            Verdict::Cancel { reason: "new".into() },
            JobState::Cancelled,
            &["attempt", "attempted_at", "errors", "finalized_at", "run_lease", "state"],
        ),
        (Verdict::Release, JobState::Available, &["attempted_at", "run_lease"]),
    ];
    let restarting = Restarting::new().await;
    for (verdict, state, expected) in ends {
        assert_eq!(changed_by(&restarting, verdict.clone(), state).await, expected, "{verdict:?}");
    }
}

#[tokio::test]
async fn completion_changes_nothing_else_either() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = insert_full(&pool, "jobs_hot", "available").await;
    let before = row(&pool, id).await;
    let completion = Completion { lease: claimed(&pool).await.lease, result: None };
    assert_eq!(complete_many(&pool, &[completion]).await.expect("completed"), [Guarded::Applied(())]);
    let mut changed = changed(&before, &row(&pool, id).await);
    changed.retain(|column| !["attempted_by", "heartbeat_at", "deadline_at"].contains(&column.as_str()));
    assert_eq!(changed, ["attempt", "attempted_at", "finalized_at", "progress", "run_lease", "state"]);
}

// PROG-01: no claim and no rescue touches progress, however often nobody gets to write any.
#[tokio::test]
async fn a_checkpoint_outlives_attempts_that_die_before_they_write() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let id = insert_full(&pool, "jobs_hot", "available").await;
    let progress = row(&pool, id).await["progress"].clone();
    for round in 1..=3 {
        assert_eq!(claimed(&pool).await.progress.as_ref(), Some(&progress), "attempt {round}");
        run(&pool, "delete from awa.workers").await;
        assert_eq!(rescue_all(&pool).await.jobs.len(), 1);
        if round < 3 {
            run(&pool, "update awa.scheduled_jobs set run_at = now()").await;
            promote(&pool, &mut PromoteCursor::default(), 10).await.expect("promoted");
        }
    }
    // Attempts 7, 8 and 9 of 9.
    assert_eq!(row(&pool, id).await["state"], "failed");
    assert_eq!(row(&pool, id).await["progress"], progress);
    assert_eq!(count(&pool, "select jsonb_array_length(errors)::bigint from awa.jobs").await, 4);
}
