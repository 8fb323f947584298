//! What a process tells of its duties: as leader with each renewal, after a tick, when they fail, and when it may not.

use std::time::Duration;

use awa_maintenance::{Duties, DutyName, MaintenanceConfig, tick};
use awa_model::WorkerId;
use awa_storage::{
    admin::fleet::{DutyStatus, status},
    session::Sessions,
    testing::TestDatabase,
};
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

use crate::support::{Script, count, quick, run};

const STALE_AFTER: Duration = Duration::from_secs(90);

async fn duties(pool: &PgPool) -> Vec<DutyStatus> {
    status(pool, STALE_AFTER).await.expect("an answer").duties
}

/// Waits for a report that says so.
async fn until(pool: &PgPool, name: &str, holds: impl Fn(&DutyStatus) -> bool) -> DutyStatus {
    loop {
        if let Some(duty) = duties(pool).await.into_iter().find(|duty| duty.name == name && holds(duty)) {
            return duty;
        }
        tokio::task::yield_now().await;
    }
}

struct Serving {
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Serving {
    async fn start(database: &TestDatabase, config: MaintenanceConfig) -> Self {
        let sessions = Sessions::probe(database.options()).await.expect("a database");
        let stop = CancellationToken::new();
        let task = tokio::spawn(awa_maintenance::serve(sessions, WorkerId::random(), config, stop.clone()));
        Self { stop, task }
    }

    async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("it ends");
    }
}

#[tokio::test]
async fn a_leader_tells_of_every_duty_and_of_what_it_leaves_out() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 25)").await;
    let config = MaintenanceConfig {
        duties: Duties::all().without(DutyName::Claims).without(DutyName::Audit),
        promote_batch_max: 10,
        ..quick()
    };
    let serving = Serving::start(&database, config).await;
    let promotion = until(&pool, "promotion", |duty| duty.is_led && duty.changed == 25).await;
    assert!(promotion.passes >= 3 && promotion.took.is_some() && !promotion.is_late, "{promotion:?}");
    for name in DutyName::ALL.map(DutyName::as_str) {
        let duty = until(&pool, name, |duty| duty.is_led).await;
        let is_left_out = ["claims", "audit"].contains(&name);
        assert_eq!(
            (duty.is_left_out, duty.ended_at.is_none(), duty.passes == 0),
            (is_left_out, is_left_out, is_left_out)
        );
    }
    serving.end().await;
    let next = Serving::start(&database, quick()).await;
    let taken_over = until(&pool, "promotion", |duty| duty.is_led && duty.term == Some(2)).await;
    assert_eq!(
        (taken_over.changed, taken_over.holder == promotion.holder),
        (0, false),
        "the next has done nothing yet"
    );
    let walk = until(&pool, "audit", |duty| duty.is_led && duty.walk.is_some()).await;
    assert!(!walk.is_left_out);
    next.end().await;
}

#[tokio::test]
async fn a_duty_that_fails_is_told_with_its_error_until_it_works_again() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    run(&pool, "alter function awa.promote rename to promote_later").await;
    let serving = Serving::start(&database, quick()).await;
    let failing = until(&pool, "promotion", |duty| duty.failures >= 3).await;
    assert!(failing.error.expect("an error").contains("awa.promote"));
    assert_eq!((failing.passes, failing.is_caught_up, failing.last_changed), (0, None, None));
    run(&pool, "alter function awa.promote_later rename to promote").await;
    let works = until(&pool, "promotion", |duty| duty.passes > 0).await;
    assert_eq!((works.failures, works.is_caught_up), (0, Some(true)));
    assert!(works.error.is_some() && works.failed_at < works.ended_at, "what it was is still to be read");
    serving.end().await;
}

#[tokio::test]
async fn a_duty_that_panics_is_told() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let running = crate::maintainer::Running::start(&pool, &[Script::PanicFirst(usize::MAX)]);
    let panics = until(&pool, "scripted", |duty| duty.failures >= 2).await;
    assert_eq!(panics.error.as_deref(), Some("panicked: as the script says"));
    running.stop().await;
}

#[tokio::test]
async fn a_leader_that_cannot_tell_keeps_the_lead() {
    let database = TestDatabase::with_sessions().await;
    let pool = database.pool();
    run(&pool, "alter table awa.duties rename to mislaid").await;
    let serving = Serving::start(&database, quick()).await;
    let renewed = "select count(*) from awa.leader where renewed_at > elected_at + interval '1 second' and term = 1";
    while count(&pool, renewed).await == 0 {
        tokio::task::yield_now().await;
    }
    run(&pool, "alter table awa.mislaid rename to duties").await;
    let told = until(&pool, "promotion", |duty| duty.is_led).await;
    assert_eq!(told.term, Some(1));
    serving.end().await;
}

#[tokio::test]
async fn a_tick_tells_of_what_it_did() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "insert into awa.scheduled_jobs (kind, run_at) select 'noop', now() from generate_series(1, 25)").await;
    run(&pool, "drop function awa.rescue").await;
    let config = MaintenanceConfig {
        duties: Duties::all().without(DutyName::Claims),
        promote_batch_max: 10,
        ..MaintenanceConfig::default()
    };
    let sessions = Sessions::probe(database.options()).await.expect("a database");
    tick(&sessions, config, Duration::ZERO).await;
    assert!(duties(&pool).await.iter().all(|duty| duty.holder.is_none()), "without time it did nothing");
    tick(&sessions, config, Duration::from_secs(60)).await;
    let told = duties(&pool).await;
    let one = |name: &str| told.iter().find(|duty| duty.name == name).expect("it is told");
    let promotion = one("promotion");
    assert_eq!(
        (promotion.changed, promotion.term, promotion.next_at, promotion.is_caught_up),
        (25, None, None, Some(true))
    );
    let rescue = one("rescue");
    assert!(rescue.failures == 1 && rescue.error.as_ref().is_some_and(|error| error.contains("awa.rescue")));
    let claims = one("claims");
    assert!(claims.holder.is_none() && !claims.is_left_out, "who was not asked tells nothing");
    assert!(told.iter().all(|duty| !duty.is_late && !duty.is_led), "{told:?}");
}

#[tokio::test]
async fn a_duty_that_fails_in_tick_after_tick_is_warned_of() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    run(&pool, "alter function awa.audit rename to audit_later").await;
    let sessions = Sessions::probe(database.options()).await.expect("a database");
    let warned = async || {
        tick(&sessions, MaintenanceConfig::default(), Duration::from_secs(60)).await;
        let warnings = status(&pool, STALE_AFTER).await.expect("an answer").warnings;
        warnings.into_iter().map(|warning| warning.explanation).collect::<String>()
    };
    assert_eq!((warned().await, warned().await), (String::new(), String::new()));
    assert!(warned().await.starts_with("the duty audit has failed 3 times in a row"));
    run(&pool, "alter function awa.audit_later rename to audit").await;
    assert_eq!(warned().await, "");
}
