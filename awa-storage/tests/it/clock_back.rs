//! The database's clock was hours ahead and has been set right: what it has left behind delays nothing for as long as that.
//! The rows are written as they would be then; what the leader does about schedules is tested with it, in `awa-maintenance`.

use awa_model::WorkerId;
use awa_storage::{
    Guarded,
    admin::fleet::{WarningCode, status},
    attempt::heartbeat,
    leader::{Term, acquire, renew},
    prune::{PruneCursor, prune_parked},
    rescue::RescueReason,
    ring, schedule,
    testing::TestDatabase,
    workers::beat,
};
use chrono::TimeDelta;
use sqlx::PgPool;
use std::time::Duration;

use crate::scene::{count, registered, rescue_all, run, running, states, text};
use crate::schedule::{fire, minutely, plan, set, the_due};

const TERM: Duration = Duration::from_secs(15);

async fn stand(pool: &PgPool) -> Option<Term> {
    acquire(pool, "maintenance", WorkerId::random(), TERM).await.expect("an answer")
}

async fn leader_ahead(pool: &PgPool, ahead: &str) {
    let statement = format!(
        "update awa.leader set elected_at = elected_at + interval '{ahead}', renewed_at = renewed_at + interval '{ahead}',
                               expires_at = expires_at + interval '{ahead}'"
    );
    run(pool, &statement).await;
}

#[tokio::test]
async fn a_leader_that_lives_goes_on_leading_and_its_term_ends_in_time_again() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let term = stand(&pool).await.expect("free");
    leader_ahead(&pool, "3 hours").await;
    assert_eq!(renew(&pool, &term, TERM).await.expect("an answer"), Guarded::Applied(()));
    assert!(stand(&pool).await.is_none());
    let in_time = "select count(*) from awa.leader where expires_at <= now() + interval '15 seconds'";
    assert_eq!(count(&pool, in_time).await, 1);
}

#[tokio::test]
async fn a_leader_that_died_in_the_future_is_followed_at_once_and_leads_no_more() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let former = stand(&pool).await.expect("free");
    leader_ahead(&pool, "3 hours").await;
    let next = stand(&pool).await.expect("nobody holds the future");
    assert_eq!(next.number(), former.number() + 1);
    assert_eq!(renew(&pool, &former, TERM).await.expect("an answer"), Guarded::Lost);
    assert_eq!(renew(&pool, &next, TERM).await.expect("an answer"), Guarded::Applied(()));
    // By less than a term: it is over soon, and its holder may be alive.
    leader_ahead(&pool, "10 seconds").await;
    assert!(stand(&pool).await.is_none());
}

#[tokio::test]
async fn a_leader_that_died_in_the_future_and_a_tick_of_then_are_not_taken_for_maintenance() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    registered(&pool).await;
    let _term = stand(&pool).await.expect("free");
    run(&pool, "insert into awa.scheduled_jobs (id, kind, run_at) values (-7, 'noop', now())").await;
    let told = async || {
        let status = status(&pool, Duration::from_secs(90)).await.expect("an answer");
        let warns = status.warnings.iter().any(|warning| warning.code == WarningCode::NoLeader);
        (status.leader.is_some(), warns, text(&pool, "select string_agg(reason, ' ') from awa.why(-7)").await)
    };
    assert_eq!(told().await, (true, false, "not_promoted".to_owned()));
    leader_ahead(&pool, "3 hours").await;
    run(&pool, "insert into awa.duties (name, holder, ended_at) values ('ring', gen_random_uuid(), now() + interval '3 hours')")
        .await;
    assert_eq!(told().await, (false, true, "no_leader not_promoted".to_owned()));
    let since = "select detail ->> 'since' is null from awa.why(-7) where reason = 'no_leader'";
    assert_eq!(text(&pool, &format!("select ({since})::text")).await, "true");
}

#[tokio::test]
async fn a_worker_that_died_in_the_future_is_missed_from_now_on_and_one_that_lives_is_not() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_dead, _) = running(&pool, "noop", 3).await;
    let (alive, _) = running(&pool, "other", 2).await;
    for statement in [
        "update awa.workers set last_seen_at = last_seen_at + interval '3 hours'",
        "update awa.jobs_hot set heartbeat_at = now() + interval '3 hours', attempted_at = now() + interval '3 hours'",
        "update awa.active_claims set claimed_at = claimed_at + interval '3 hours'",
    ] {
        run(&pool, statement).await;
    }
    assert_eq!(rescue_all(&pool).await.jobs, [], "nobody has had the time to say that it lives");
    assert_eq!(count(&pool, "select count(*) from awa.workers where last_seen_at > now()").await, 0);
    run(&pool, "update awa.workers set last_seen_at = last_seen_at - interval '100 seconds'").await;
    assert_eq!(beat(&pool, alive).await.expect("a beat"), Guarded::Applied(()));
    let rescued = rescue_all(&pool).await;
    assert!(rescued.jobs.iter().all(|job| job.reason == RescueReason::Worker), "{rescued:?}");
    assert_eq!(states(&pool).await, "running 2, retryable 3");
}

/// An attempt that its worker has given up, or has never heard of.
#[tokio::test]
async fn an_attempt_that_fell_silent_in_the_future_is_missed_from_now_on_beside_others_of_its_worker() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, jobs) = running(&pool, "noop", 3).await;
    // Claimed under the wrong clock; and the same, long before it was wrong.
    for claimed in ["now() + interval '3 hours'", "now() - interval '3 hours'"] {
        run(&pool, &format!("update awa.active_claims set claimed_at = {claimed}")).await;
        run(
            &pool,
            &format!("update awa.jobs_hot set attempted_at = {claimed}, heartbeat_at = now() + interval '3 hours'"),
        )
        .await;
        assert!(heartbeat(&pool, &[jobs[0].lease.held()]).await.expect("a beat").is_empty());
        assert_eq!(rescue_all(&pool).await.jobs, [], "nobody has had the time to say that it lives");
        let ahead = "select count(*) from awa.jobs_hot where greatest(heartbeat_at, attempted_at) > now()";
        assert_eq!(count(&pool, ahead).await, 0);
    }
    run(
        &pool,
        "update awa.jobs_hot set heartbeat_at = heartbeat_at - interval '100 seconds', attempted_at = '2020-01-01'",
    )
    .await;
    assert!(heartbeat(&pool, &[jobs[0].lease.held()]).await.expect("a beat").is_empty());
    let rescued = rescue_all(&pool).await;
    assert!(rescued.jobs.iter().all(|job| job.reason == RescueReason::Heartbeat), "{rescued:?}");
    assert_eq!(states(&pool).await, "running 1, retryable 2");
}

#[tokio::test]
async fn a_segment_that_was_opened_in_the_future_is_closed_and_nothing_goes_too_soon() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(
        &pool,
        "insert into awa.jobs_hot (kind, state, finalized_at) values ('noop', 'completed', now() + interval '3 hours')",
    )
    .await;
    assert!(!ring::look(&pool).await.expect("a look").rotate);
    run(&pool, "update awa.ring set opened_at[1] = now() + interval '3 hours'").await;
    let needs = ring::look(&pool).await.expect("a look");
    assert!(needs.rotate);
    assert!(ring::rotate(&pool, needs.current).await.expect("rotated"));
    let needs = ring::look(&pool).await.expect("a look");
    assert!(!needs.rotate && needs.recycle_in.is_some_and(|due| due > Duration::from_secs(23 * 3600)), "{needs:?}");
    // What ended in the future is kept for its retention from then on, neither less nor for ever.
    run(
        &pool,
        "insert into awa.jobs_hot_parked (kind, state, finalized_at) select 'noop', 'failed', now() + interval '3 hours' - age
           from unnest(array['6 days 20 hours', '7 days 4 hours']::interval[]) as age;",
    )
    .await;
    let pruned = async || {
        prune_parked(&pool, awa_model::JobState::Failed, PruneCursor::default(), 10).await.expect("pruned").pruned
    };
    assert_eq!(pruned().await, 1);
    run(&pool, "update awa.jobs_hot_parked set finalized_at = finalized_at - interval '1 day'").await;
    assert_eq!(pruned().await, 1);
}

/// A time that was handled under the wrong clock is not handled again when it really comes.
#[tokio::test]
async fn a_schedule_that_was_planned_in_the_future_is_planned_anew_and_fires_each_time_once() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = set(&pool, minutely("a")).await;
    let next = plan(&pool, "a").await;
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.is_empty());
    run(&pool, "update awa.cron_schedules set next_at = next_at + interval '3 hours', planned_at = planned_at + interval '3 hours'").await;
    let due = the_due(&pool, "a").await;
    assert_eq!(due.next_at, None);
    let again = plan(&pool, "a").await;
    assert!(again >= next && again - next <= TimeDelta::minutes(1), "{again}");
    // Who had decided the same comes too late.
    assert!(!schedule::plan(&pool, &due, Ok(Some(next))).await.expect("an answer"));
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.is_empty());
    // The clock ahead had handled this time.
    run(&pool, "update awa.cron_schedules set next_at = next_at - interval '1 minute'").await;
    run(
        &pool,
        "insert into awa.cron_ticks (schedule, slot, outcome) select name, next_at, 'fired' from awa.cron_schedules",
    )
    .await;
    assert_eq!(fire(&pool, &the_due(&pool, "a").await).await, []);
    assert_eq!(count(&pool, "select count(*) from awa.jobs").await, 0);
    run(&pool, "delete from awa.cron_ticks").await;
    run(&pool, "update awa.cron_schedules set next_at = next_at - interval '1 minute'").await;
    assert_eq!(fire(&pool, &the_due(&pool, "a").await).await.len(), 1);
}

#[tokio::test]
async fn a_time_that_has_come_is_handled_by_whatever_clock_it_was_planned() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let _ = set(&pool, minutely("a")).await;
    plan(&pool, "a").await;
    run(&pool, "update awa.cron_schedules set next_at = next_at - interval '1 minute', planned_at = now() + interval '3 hours'").await;
    assert_eq!(fire(&pool, &the_due(&pool, "a").await).await.len(), 1);
    assert_eq!(count(&pool, "select count(*) from awa.cron_schedules where planned_at <= clock_timestamp()").await, 1);
    // Clocks that are set right all day are no reason to plan anew.
    run(&pool, "update awa.cron_schedules set planned_at = clock_timestamp() + interval '500 milliseconds'").await;
    assert!(schedule::due(&pool, 10).await.expect("an answer").schedules.is_empty());
}
