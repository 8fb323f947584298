//! RANGE-04 and RANGE-06: spans of any length have their exact effect, and all time is the database's.

use std::time::Duration;

use awa_model::{JobState, limits};
use awa_storage::{
    Guarded,
    promote::{PromoteCursor, promote},
    settle::{Settlement, Verdict, settle_alone, settle_many},
    testing::TestDatabase,
};

use crate::scene::{begin, claim, count, registered, rescue_all, run, running, text};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Never at once, and never an error: the longest spans that the limits let through, and the shortest.
#[tokio::test]
async fn a_delay_of_any_length_is_waited_for_exactly() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let spans = [
        (Duration::ZERO, "0"),
        (Duration::from_nanos(1), "0"),
        (Duration::from_micros(1), "0.000001 seconds"),
        (YEAR, "365 days"),
        (100 * YEAR, "36500 days"),
        (limits::RUN_IN_MAX, "366000 days"),
    ];
    for (after, expected) in spans {
        for verdict in [Verdict::Snooze { after }, Verdict::Retry { after: Some(after), error: "later".to_owned() }] {
            let (_, mut jobs) = running(&pool, "noop", 1).await;
            let lease = jobs.remove(0).lease;
            let id = lease.job_id().get();
            let settlement = Settlement { lease, verdict, progress: None };
            let answers = settle_many(&pool, std::slice::from_ref(&settlement)).await.expect("settled");
            assert!(answers[0].is_applied(), "{settlement:?}");
            // Against a mark that the same clock makes before and after.
            let due = format!(
                "select count(*) from awa.scheduled_jobs
                  where id = {id} and run_at - now() between interval '{expected}' - interval '1 minute' and interval '{expected}'"
            );
            assert_eq!(count(&pool, &due).await, 1, "{settlement:?}");
            let promoted = promote(&pool, &mut PromoteCursor::default(), 10).await.expect("a batch").promoted;
            assert_eq!(promoted, usize::from(after < Duration::from_secs(1)), "{settlement:?}");
            run(&pool, "truncate awa.jobs_hot, awa.scheduled_jobs").await;
        }
    }
}

#[tokio::test]
async fn a_deadline_far_away_is_no_deadline_in_the_past() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    for years in [1, 10, 1000] {
        run(&pool, &format!("insert into awa.jobs_hot (kind, timeout) values ('noop', '{years} years')")).await;
    }
    let worker = registered(&pool).await;
    let jobs = claim(&pool, worker, "noop", 3).await;
    assert_eq!(rescue_all(&pool).await.jobs, []);
    let ahead = "select count(*) from awa.jobs
                  where extract(epoch from deadline_at - attempted_at) >= extract(epoch from timeout) and deadline_at > now() + interval '364 days'";
    assert_eq!(count(&pool, ahead).await, 3);
    assert_eq!(jobs.len(), 3);
}

/// RANGE-06: a caller can say how long, never when. What is left are positions that the database itself has named before,
/// and times of a calendar, which are handled when they have come by the database's clock.
#[tokio::test]
async fn no_statement_of_a_worker_takes_a_time_from_its_clock() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let times = "select coalesce(string_agg(routine.proname || '.' || argument.name, ', ' order by 1), '')
                   from pg_proc as routine
                   join awa.access_rules() as rule on rule.object = routine.proname
                  cross join lateral unnest(routine.proargtypes::oid[], routine.proargnames) as argument (type, name)
                  where routine.pronamespace = 'awa'::regnamespace
                    and 'worker' = any (rule.bundles)
                    and argument.type::regtype::text ~ '^(timestamp|date|time)'";
    assert_eq!(
        text(&pool, times).await,
        "expire_callbacks.p_after_due, fire_schedule.p_from, fire_schedule.p_slots, \
         fire_schedule.p_missed_first, fire_schedule.p_missed_last, fire_schedule.p_next_at, plan_schedule.p_next_at, promote.p_after_run_at, \
         promote_others.p_after_run_at, prune_parked.p_after_finalized"
    );
}

/// LOCK-10: the limits belong to the functions. They hold for a caller outside a transaction, and leave no trace behind.
#[tokio::test]
async fn a_lock_timeout_holds_without_a_transaction_and_does_not_leak() {
    let database = TestDatabase::new().await;
    let pool =
        sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_with(database.options()).await.expect("a pool");
    let (_, jobs) = running(&pool, "noop", 1).await;
    let mut user = begin(&database).await;
    run(&mut user, "select from awa.jobs_hot for update").await;
    run(
        &mut user,
        "insert into awa.jobs_hot (kind, unique_key, unique_states) values ('holder', decode(md5('key'), 'hex'), 2)",
    )
    .await;
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at, unique_key, unique_states) values ('late', now(), decode(md5('key'), 'hex'), 2)").await;
    for job in jobs {
        let settlement = Settlement { lease: job.lease, verdict: Verdict::Release, progress: None };
        // A session without a limit of its own would wait for the user.
        let error = settle_many(&pool, std::slice::from_ref(&settlement)).await.expect_err("the row is locked");
        assert_eq!(error.sqlstate().as_deref(), Some("55P03"));
        let error = settle_alone(&pool, &settlement).await.expect_err("the row is locked");
        assert_eq!(error.sqlstate().as_deref(), Some("55P03"));
        assert_eq!(promote(&pool, &mut PromoteCursor::default(), 10).await.expect("a batch").left_alone, 1);
        assert_eq!(text(&pool, "select current_setting('lock_timeout')").await, "0");
        run(&mut user, "rollback").await;
        assert_eq!(settle_alone(&pool, &settlement).await.expect("settled"), Guarded::Applied(JobState::Available));
    }
    let locally = "select coalesce(string_agg(proname, ', ' order by proname), '') from pg_proc
                    where pronamespace = 'awa'::regnamespace and prosrc ~* 'set\\s+local'";
    assert_eq!(text(&pool, locally).await, "");
    pool.close().await;
}
