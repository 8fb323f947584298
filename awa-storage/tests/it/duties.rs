//! What the duties of maintenance tell of themselves, and what waits for them.

use std::time::Duration;

use awa_model::WorkerId;
use awa_storage::{
    Guarded,
    admin::fleet::{Backlog, DutyStatus, status},
    leader::{DutyReport, PassReport, Term, WalkReport, acquire, renew, renew_and_report, report, resign},
    testing::{TestDatabase, TestRole},
};
use sqlx::PgPool;

use crate::scene::{age_attempts, begin, count, rescue_all, run, running};
use crate::waiting::parked;

const LASTS: Duration = Duration::from_secs(60);
const STALE_AFTER: Duration = Duration::from_secs(90);
const SECOND: Duration = Duration::from_secs(1);

const NAMES: [&str; 8] = ["promotion", "schedules", "rescue", "callbacks", "ring", "claims", "retention", "audit"];

fn told(name: &'static str) -> DutyReport {
    let ended = PassReport {
        ago: SECOND * 2,
        took: SECOND,
        changed: Some(4),
        is_caught_up: Some(true),
        next_in: Some(SECOND * 10),
    };
    DutyReport {
        name,
        left_out: false,
        passes: 3,
        changed: 12,
        failures: 0,
        began: Some(SECOND * 3),
        ended: Some(ended),
        failed: None,
        walk: None,
    }
}

async fn elected(pool: &PgPool) -> (WorkerId, Term) {
    let holder = WorkerId::random();
    (holder, acquire(pool, "maintenance", holder, LASTS).await.expect("an answer").expect("a term"))
}

async fn duty(pool: &PgPool, name: &str) -> DutyStatus {
    let status = status(pool, STALE_AFTER).await.expect("an answer");
    status.duties.into_iter().find(|duty| duty.name == name).expect(name)
}

async fn backlog(pool: &PgPool, name: &str) -> Backlog {
    duty(pool, name).await.backlog.expect("a backlog")
}

async fn end_term(pool: &PgPool) {
    run(pool, "update awa.leader set expires_at = now() - interval '1 second'").await;
}

#[tokio::test]
async fn duties_that_never_ran_are_told_as_such() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let found = status(&pool, STALE_AFTER).await.expect("an answer").duties;
    assert_eq!(found.iter().map(|duty| duty.name.as_str()).collect::<Vec<_>>(), NAMES);
    for duty in found {
        assert_eq!((duty.holder, duty.term, duty.ended_at, duty.next_at, duty.error), (None, None, None, None, None));
        assert!(!duty.is_led && !duty.is_late && !duty.is_left_out, "{}", duty.name);
        assert_eq!(duty.backlog.map(|backlog| backlog.waiting), (duty.name != "audit").then_some(0));
    }
}

#[tokio::test]
async fn a_report_comes_with_the_renewal_and_names_its_term() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (holder, term) = elected(&pool).await;
    let walk = WalkReport { segment: 3, after: i64::MAX, ended: Some(SECOND * 60), finds: 2 };
    let audit = DutyReport { walk: Some(walk), ..told("audit") };
    let renewed = renew_and_report(&pool, &term, LASTS, &[told("rescue"), audit]).await.expect("an answer");
    assert_eq!(renewed, Guarded::Applied(()));
    let status = status(&pool, STALE_AFTER).await.expect("an answer");
    let rescue = duty(&pool, "rescue").await;
    assert_eq!((rescue.holder, rescue.term, rescue.is_led, rescue.is_late), (Some(holder), Some(1), true, false));
    assert_eq!((rescue.passes, rescue.changed, rescue.last_changed), (3, 12, Some(4)));
    assert_eq!((rescue.took, rescue.is_caught_up), (Some(SECOND), Some(true)));
    let (began, ended) = (rescue.began_at.expect("a time"), rescue.ended_at.expect("a time"));
    assert_eq!(
        ((ended - began).num_milliseconds(), rescue.next_at),
        (1000, Some(ended + chrono::TimeDelta::seconds(10)))
    );
    assert!(ended < status.at && status.at - ended < chrono::TimeDelta::minutes(1));
    let walk = duty(&pool, "audit").await.walk.expect("a walk");
    assert_eq!((walk.segment, walk.after, walk.finds), (3, i64::MAX, 2));
    assert!(walk.ended_at < Some(status.at));
    assert_eq!(duty(&pool, "promotion").await.holder, None, "who is not named stays as it was");
}

/// LEADER-01.
#[tokio::test]
async fn a_deposed_leader_tells_nothing() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, first) = elected(&pool).await;
    end_term(&pool).await;
    let refused = renew_and_report(&pool, &first, LASTS, &[told("ring")]).await.expect("an answer");
    assert_eq!((refused, duty(&pool, "ring").await.term), (Guarded::Lost, None));
    let (second_holder, second) = elected(&pool).await;
    let _ = renew_and_report(&pool, &second, LASTS, &[told("ring")]).await.expect("an answer");
    let refused = renew_and_report(&pool, &first, LASTS, &[told("ring")]).await.expect("an answer");
    assert_eq!((refused, duty(&pool, "ring").await.holder), (Guarded::Lost, Some(second_holder)));
}

#[tokio::test]
async fn a_new_leader_has_done_nothing_yet_and_keeps_what_lasts() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (first, term) = elected(&pool).await;
    let walk = WalkReport { segment: 7, after: 1, ended: Some(SECOND), finds: 1 };
    let failed = Some((SECOND, "no such relation".to_owned()));
    let audit = DutyReport { walk: Some(walk), failed, ..told("audit") };
    let _ = renew_and_report(&pool, &term, LASTS, &[audit]).await.expect("an answer");
    let before = duty(&pool, "audit").await;
    let _ = resign(&pool, term).await.expect("an answer");
    assert!(!duty(&pool, "audit").await.is_led, "nobody leads");
    let (second, term) = elected(&pool).await;
    let after = duty(&pool, "audit").await;
    assert_eq!((after.is_led, after.holder, after.term), (false, Some(first), Some(1)), "that was the one before");
    let walk = WalkReport { segment: -1, after: i64::MIN, ended: None, finds: 0 };
    let fresh = DutyReport { passes: 0, changed: 0, ended: None, walk: Some(walk), ..told("audit") };
    let _ = renew_and_report(&pool, &term, LASTS, &[fresh]).await.expect("an answer");
    let after = duty(&pool, "audit").await;
    assert_eq!((after.is_led, after.holder, after.passes, after.changed), (true, Some(second), 0, 0));
    let (walk, kept) = (after.walk.expect("a walk"), before.walk.expect("a walk"));
    assert_eq!((walk.segment, walk.ended_at, walk.finds), (-1, kept.ended_at, 0));
    assert_eq!((after.ended_at, after.failed_at), (before.ended_at, before.failed_at));
    assert_eq!((after.failures, after.error.as_deref()), (0, Some("no such relation")));
}

#[tokio::test]
async fn a_duty_that_fails_shows_with_its_error_whatever_is_in_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, term) = elected(&pool).await;
    let long = format!("\0nul {}", "🦀".repeat(5000));
    let ended = PassReport { ago: SECOND, took: SECOND, changed: None, is_caught_up: None, next_in: Some(SECOND) };
    let failing = DutyReport {
        failures: u64::MAX,
        changed: u64::MAX,
        began: Some(Duration::MAX),
        ended: Some(ended),
        failed: Some((SECOND, long)),
        ..told("promotion")
    };
    let renewed = renew_and_report(&pool, &term, LASTS, &[failing]).await.expect("an answer");
    assert_eq!(renewed, Guarded::Applied(()));
    let found = duty(&pool, "promotion").await;
    let error = found.error.expect("an error");
    assert!(error.starts_with("\u{fffd}nul 🦀") && error.chars().count() == 1000, "{error}");
    assert_eq!((found.failures, found.changed), (i64::MAX.unsigned_abs(), i64::MAX.unsigned_abs()));
    assert_eq!((found.is_caught_up, found.last_changed), (None, None));
    assert!(found.failed_at.is_some());
}

/// A report is for people, the lease is what counts.
#[tokio::test]
async fn a_report_that_cannot_be_written_fails_soon_and_the_term_can_still_be_renewed() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, term) = elected(&pool).await;
    let mut other = begin(&database).await;
    run(&mut other, "lock table awa.duties").await;
    let error = renew_and_report(&pool, &term, LASTS, &[told("ring")]).await.expect_err("a lock");
    assert!(error.is_transient(), "{error}");
    assert_eq!(renew(&pool, &term, LASTS).await.expect("an answer"), Guarded::Applied(()));
    report(&pool, WorkerId::random(), &[told("ring")]).await.expect_err("a lock");
    run(&mut other, "rollback").await;
    let renewed = renew_and_report(&pool, &term, LASTS, &[told("ring")]).await.expect("an answer");
    assert_eq!(renewed, Guarded::Applied(()));
}

#[tokio::test]
async fn a_tick_tells_without_a_term_and_does_not_say_when_it_comes_again() {
    let database = TestDatabase::empty().await;
    let _owner = TestRole::owner(&database).await;
    let role = TestRole::new(&database).await;
    role.grant(&["worker"]).await;
    let pool = database.pool();
    let mut once = told("callbacks");
    once.ended.as_mut().expect("a pass").next_in = None;
    let holder = WorkerId::random();
    report(&role.pool(), holder, &[once]).await.expect("told");
    let found = duty(&pool, "callbacks").await;
    assert_eq!((found.holder, found.term, found.next_at, found.is_led), (Some(holder), None, None, false));
    assert!(!found.is_late);
}

/// Each is another process, which gives a duty up when it fails.
#[tokio::test]
async fn failures_of_ticks_add_up_until_a_pass_ends_well() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, term) = elected(&pool).await;
    let fails = |passes, failures| {
        let failed = Some((Duration::ZERO, "broken".to_owned()));
        DutyReport { passes, failures, failed, ..told("rescue") }
    };
    let tick = async |passes, failures| {
        report(&pool, WorkerId::random(), &[fails(passes, failures)]).await.expect("told");
        duty(&pool, "rescue").await.failures
    };
    assert_eq!((tick(0, 1).await, tick(0, 1).await, tick(0, 1).await), (1, 2, 3));
    assert_eq!((tick(5, 1).await, tick(0, 1).await), (1, 2), "a pass of this tick ended well");
    let _ = renew_and_report(&pool, &term, LASTS, &[fails(0, 7)]).await.expect("an answer");
    let _ = renew_and_report(&pool, &term, LASTS, &[fails(0, 8)]).await.expect("an answer");
    assert_eq!(duty(&pool, "rescue").await.failures, 8, "a leader counts them itself");
    assert_eq!((tick(1, 0).await, tick(0, 1).await), (0, 1));
}

/// Nearly two updates a second, for as long as a fleet lives.
#[tokio::test]
async fn reports_are_written_in_place_in_the_transaction_of_the_renewal() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (holder, term) = elected(&pool).await;
    let all: Vec<_> = NAMES.into_iter().map(told).collect();
    let _ = renew_and_report(&pool, &term, LASTS, &all).await.expect("an answer");
    let with_lease = "select count(*) from awa.duties join awa.leader on awa.leader.xmin::text = awa.duties.xmin::text";
    assert_eq!(count(&pool, with_lease).await, 8, "one transaction");
    let mut session = begin(&database).await;
    let again = format!(
        "select awa.renew_and_report('maintenance', '{}', 1, 60, (select jsonb_agg(jsonb_build_object('name', duty.name, 'began_ago', 1,
                    'ended_ago', 1, 'next_in', 1, 'error', repeat('x', 50))) from awa.duties as duty))",
        holder.get()
    );
    run(&mut session, &again).await;
    let updates = "select n_tup_upd * 1000 + n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'duties'";
    assert_eq!(count(&mut session, updates).await, 8008, "none of them touches the index");
}

#[tokio::test]
async fn a_duty_is_late_when_its_next_pass_does_not_come() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let (_, term) = elected(&pool).await;
    let left_out = DutyReport { left_out: true, began: None, ended: None, ..told("ring") };
    let _ = renew_and_report(&pool, &term, LASTS, &[told("rescue"), left_out]).await.expect("an answer");
    let late = async || {
        let status = status(&pool, STALE_AFTER).await.expect("an answer");
        let late = status.duties.into_iter().filter(|duty| duty.is_late).map(|duty| duty.name);
        late.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(late().await, "");
    assert!(duty(&pool, "ring").await.is_left_out);
    run(&pool, "update awa.duties set next_at = now() - interval '110 seconds'").await;
    assert_eq!(late().await, "");
    run(&pool, "update awa.duties set next_at = now() - interval '130 seconds'").await;
    assert_eq!(late().await, "", "who leads has just been elected, after a time when nobody did");
    run(&pool, "update awa.leader set elected_at = now() - interval '110 seconds'").await;
    assert_eq!(late().await, "");
    run(&pool, "update awa.leader set elected_at = now() - interval '130 seconds'").await;
    assert_eq!(
        late().await,
        "promotion schedules rescue callbacks claims retention audit",
        "one is left out; the others but one never came"
    );
    run(&pool, "delete from awa.leader").await;
    assert_eq!(late().await, "rescue", "where nobody leads, who never came is not missed");
}

#[tokio::test]
async fn what_waits_for_promotion_schedules_and_callbacks_is_counted_and_late_after_two_minutes() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    parked(&pool).await;
    for statement in [
        "insert into awa.scheduled_jobs (kind, run_at) values ('noop', now() - interval '1 minute'), ('noop', now()),
             ('noop', now() + interval '1 hour')",
        "insert into awa.cron_schedules (name, expression, timezone, job, missed, overlap, planned, fault, paused_at, next_at)
         values ('due', '* * * * *', 'UTC', '{}', 'skip', 'allow', true, null, null, now() - interval '1 minute'),
                ('later', '* * * * *', 'UTC', '{}', 'skip', 'allow', true, null, null, now() + interval '1 minute'),
                ('paused', '* * * * *', 'UTC', '{}', 'skip', 'allow', true, null, now(), now() - interval '1 day'),
                ('broken', '* * * * *', 'UTC', '{}', 'skip', 'allow', true, 'why', null, now() - interval '1 day')",
        "update awa.callbacks set due_at = now() - interval '1 minute'",
    ] {
        run(&pool, statement).await;
    }
    for (name, waiting) in [("promotion", 2), ("schedules", 1), ("callbacks", 1)] {
        let found = duty(&pool, name).await;
        let backlog = found.backlog.expect("a backlog");
        assert_eq!((backlog.waiting, backlog.is_all, found.is_late), (waiting, true, false), "{name}");
    }
    for statement in [
        "update awa.scheduled_jobs set run_at = run_at - interval '70 seconds'",
        "update awa.cron_schedules set next_at = next_at - interval '70 seconds' where name = 'due'",
        "update awa.callbacks set due_at = due_at - interval '70 seconds'",
    ] {
        run(&pool, statement).await;
    }
    let at = status(&pool, STALE_AFTER).await.expect("an answer").at;
    for name in ["promotion", "schedules", "callbacks"] {
        let found = duty(&pool, name).await;
        let since = found.backlog.expect("a backlog").since.expect("a time");
        assert!(found.is_late && at - since > chrono::TimeDelta::seconds(120), "{name}");
    }
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 12000)")
        .await;
    let promotion = backlog(&pool, "promotion").await;
    assert_eq!((promotion.waiting, promotion.is_all), (10_000, false));
}

#[tokio::test]
async fn what_rescue_has_to_take_is_what_waits_for_it() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let waiting = async || backlog(&pool, "rescue").await.waiting;
    running(&pool, "noop", 3).await;
    assert_eq!(waiting().await, 0);
    age_attempts(&pool, "80 seconds").await;
    assert_eq!(waiting().await, 0);
    age_attempts(&pool, "20 seconds").await;
    let found = backlog(&pool, "rescue").await;
    assert_eq!((found.waiting, found.is_all), (3, true));
    let at = status(&pool, STALE_AFTER).await.expect("an answer").at;
    let age = at - found.since.expect("a time");
    assert!((10..60).contains(&age.num_seconds()), "{age}: silent for 100 s of which 90 are allowed");
    assert!(!duty(&pool, "rescue").await.is_late);
    assert_eq!(rescue_all(&pool).await.jobs.len(), 3);
    assert_eq!(waiting().await, 0, "they are on the list still, and run no more");
    // Over its deadline, although it shows signs of life.
    running(&pool, "noop", 1).await;
    run(&pool, "update awa.jobs_hot set deadline_at = now() - interval '3 minutes' where state = 'running'").await;
    run(&pool, "update awa.active_claims set deadline_at = now() - interval '3 minutes'").await;
    let found = duty(&pool, "rescue").await;
    assert_eq!((found.backlog.expect("a backlog").waiting, found.is_late), (1, true));
    // A worker that has left takes nothing along.
    running(&pool, "noop", 2).await;
    run(&pool, "delete from awa.workers").await;
    assert_eq!(waiting().await, 3);
}

#[tokio::test]
async fn what_waits_for_ring_claims_and_retention_is_counted() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    running(&pool, "noop", 2).await;
    assert_eq!(backlog(&pool, "claims").await.waiting, 0, "claims are written to this part");
    for statement in [
        "select awa.set_retention('long', failed => '30 days'), awa.set_retention('short', cancelled => '1 hour')",
        "insert into awa.jobs_hot_parked (kind, queue, state, finalized_at)
         select 'noop', queue, state::awa.job_state, now() - age::interval
           from (values ('default', 'failed', '8 days'), ('default', 'failed', '6 days'), ('long', 'failed', '20 days'),
                        ('long', 'failed', '31 days'), ('short', 'cancelled', '2 hours'), ('default', 'cancelled', '2 hours'),
                        ('default', 'completed', '2 days')) as parked (queue, state, age)",
        "update awa.ring set claims_part = 1, claims_switched_at = now() - interval '2 hours'",
        "update awa.ring set current = 3, oldest = 1,
                closed_at[2] = now() - interval '26 hours', closed_at[3] = now() - interval '3 hours'",
    ] {
        run(&pool, statement).await;
    }
    let at = status(&pool, STALE_AFTER).await.expect("an answer").at;
    for (name, waiting, minutes) in [("ring", 1, 60), ("claims", 1, 120), ("retention", 4, 24 * 60)] {
        let found = duty(&pool, name).await;
        let backlog = found.backlog.expect("a backlog");
        assert_eq!((backlog.waiting, backlog.is_all), (waiting, true), "{name}");
        let age = at - backlog.since.expect("a time");
        assert!((age.num_minutes() - minutes).abs() <= 1, "{name}: {age}");
    }
    assert!(duty(&pool, "claims").await.is_late && duty(&pool, "retention").await.is_late);
    run(&pool, "update awa.ring set completed_retention = '1000 years', failed_retention = '1000 years'").await;
    assert_eq!((backlog(&pool, "ring").await.waiting, backlog(&pool, "retention").await.waiting), (0, 2));
}
