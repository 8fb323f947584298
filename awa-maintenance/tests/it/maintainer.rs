//! The loop: every duty of the leader runs, whatever the others do, and stops when asked.

use std::sync::Arc;

use awa_maintenance::{Elector, Maintainer, MaintenanceConfig};
use awa_model::WorkerId;
use awa_storage::testing::TestDatabase;
use sqlx::PgPool;
use tokio::{sync::mpsc::UnboundedReceiver, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::support::{Script, Scripted, count, quick, run};

pub(crate) struct Running {
    cancelled: CancellationToken,
    task: JoinHandle<()>,
    heard: Vec<UnboundedReceiver<()>>,
}

impl Running {
    pub(crate) fn start(pool: &PgPool, scripts: &[Script]) -> Self {
        let (duties, heard): (Vec<_>, Vec<_>) = scripts.iter().map(|script| Scripted::new(*script)).unzip();
        let duties = duties.into_iter().map(|duty| Arc::new(duty) as _).collect();
        let maintainer = Maintainer::with_duties(pool.clone(), WorkerId::random(), quick(), duties).expect("valid");
        let cancelled = CancellationToken::new();
        let task = tokio::spawn(maintainer.run(cancelled.clone()));
        Self { cancelled, task, heard }
    }

    async fn hear(&mut self, duty: usize, passes: usize) {
        for _ in 0..passes {
            self.heard[duty].recv().await.expect("the duty runs");
        }
    }

    pub(crate) async fn stop(self) {
        self.cancelled.cancel();
        self.task.await.expect("stopped in order");
    }
}

/// LEADER-04.
#[tokio::test]
async fn a_duty_that_hangs_delays_no_other() {
    let database = TestDatabase::new().await;
    let mut running = Running::start(&database.pool(), &[Script::Hang, Script::Work]);
    running.hear(1, 5).await;
    running.stop().await;
}

/// LEADER-03.
#[tokio::test]
async fn a_duty_that_fails_is_repeated() {
    let database = TestDatabase::new().await;
    let mut running = Running::start(&database.pool(), &[Script::FailFirst(3), Script::Work]);
    running.hear(0, 3).await;
    running.hear(1, 3).await;
    running.stop().await;
}

#[tokio::test]
async fn a_duty_that_panics_is_started_again() {
    let database = TestDatabase::new().await;
    let mut running = Running::start(&database.pool(), &[Script::PanicFirst(2)]);
    running.hear(0, 3).await;
    running.stop().await;
}

#[tokio::test]
async fn who_stops_gives_up_the_lead() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut running = Running::start(&pool, &[Script::Work, Script::Hang]);
    running.hear(0, 1).await;
    let mut next = Elector::new(pool, WorkerId::random(), quick().leader_term);
    assert!(!next.stand().await.expect("an answer"));
    running.stop().await;
    assert!(next.stand().await.expect("an answer"));
}

#[tokio::test]
async fn only_the_leader_works_and_another_takes_over() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut first = Running::start(&pool, &[Script::Work]);
    first.hear(0, 1).await;
    let mut second = Running::start(&pool, &[Script::Work]);
    first.hear(0, 20).await;
    assert!(second.heard[0].try_recv().is_err());
    first.stop().await;
    second.hear(0, 3).await;
    second.stop().await;
}

/// LEADER-01, from the loop's side: the term is taken away while the duties run.
#[tokio::test]
async fn who_loses_the_term_stops_working() {
    let database = TestDatabase::new().await;
    let pool = database.pool();
    let mut running = Running::start(&pool, &[Script::Work]);
    running.hear(0, 1).await;
    run(
        &pool,
        "update awa.leader set holder = gen_random_uuid(), term = term + 1, expires_at = now() + interval '1 hour'",
    )
    .await;
    // It works on while it trusts its term, then falls silent: a whole second without a pass.
    while tokio::time::timeout(std::time::Duration::from_secs(1), running.heard[0].recv()).await.is_ok() {}
    running.stop().await;
    assert_eq!(count(&pool, "select term from awa.leader").await, 2);
}

#[tokio::test]
async fn broken_rules_are_told_at_once() {
    let database = TestDatabase::new().await;
    let config = MaintenanceConfig { promote_batch_max: 0, audit_rows_max: 0, ..MaintenanceConfig::default() };
    let broken = Maintainer::new(database.pool(), WorkerId::random(), config).expect_err("two rules");
    assert_eq!(broken.len(), 2);
}
