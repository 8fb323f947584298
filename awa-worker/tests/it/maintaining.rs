//! Clients that do maintenance alone, or once.

use std::time::Duration;

use awa_worker::{Client, DutyName, Error, JobError, Mistake, NewJob, QueueConfig, Schedule};
use serde_json::Value;

use crate::support::{Probe, Rig, drain, probe, until};

#[tokio::test]
async fn maintenance_alone_promotes_and_schedules_and_claims_nothing() {
    let rig = Rig::new().await;
    let client = Client::maintenance_only(rig.pool.clone())
        .schedule(Schedule::new("every second", "* * * * * *", probe("periodic")))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(NewJob::new(&probe("later")).run_in(Duration::from_millis(1))).await;
    let row = rig.state(id, "available").await;
    assert_eq!(row.attempt, 0);
    let scheduled = "select count(*) from awa.jobs where args ->> 'name' = 'periodic' and state = 'available'";
    until("a periodic job", async || rig.count(scheduled).await > 0).await;
    assert_eq!(rig.count("select count(*) from awa.workers").await, 0, "it is no worker");
    assert_eq!(rig.count("select count(*) from awa.leader where expires_at > now()").await, 1);
    let report = drain(&running).await;
    assert_eq!((report.returned, report.left_to_rescue), (0, 0));
    assert_eq!(rig.count("select count(*) from awa.leader where expires_at > now()").await, 0, "the lead is given up");
}

#[tokio::test]
async fn a_tick_does_what_is_due_now() {
    let rig = Rig::new().await;
    let client = Client::builder(rig.pool.clone()).without_duty(DutyName::Audit).build().unwrap();
    let id = rig.enqueue(NewJob::new(&probe("later")).run_in(Duration::from_millis(1))).await;
    until("its time", async || rig.count("select count(*) from awa.scheduled_jobs where run_at <= now()").await == 1)
        .await;
    let ticked = client.tick(Duration::from_secs(60)).await.unwrap();
    assert!(ticked.iter().all(|one| one.is_done && one.error.is_none()), "{ticked:?}");
    assert_eq!(ticked.len(), DutyName::ALL.len() - 1);
    assert_eq!(rig.row(id).await.state, "available");
}

#[tokio::test]
async fn maintenance_alone_takes_no_handlers_and_does_not_go_without_maintenance() {
    let rig = Rig::new().await;
    let builder = || Client::maintenance_only(rig.pool.clone());
    let handler = async |_: Probe| Ok::<_, JobError>(Value::Null);
    for wrong in
        [builder().register(handler), builder().queue("a", QueueConfig::new()), builder().without_maintenance()]
    {
        let Err(Error::Build(error)) = wrong.build() else { panic!("built") };
        assert_eq!(error.mistakes(), [Mistake::MaintenanceOnly]);
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_an_error_of_the_start_and_of_a_tick() {
    let pool = sqlx::PgPool::connect_lazy("postgres://127.0.0.1:1/nowhere").unwrap();
    let client = Client::maintenance_only(pool).build().unwrap();
    assert!(matches!(client.start().await, Err(Error::Storage(_))));
    assert!(matches!(client.tick(Duration::from_secs(1)).await, Err(Error::Storage(_))));
}
