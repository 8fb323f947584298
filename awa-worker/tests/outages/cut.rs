//! Connections that break, at whatever moment, and a database that cannot be reached for a while.

use std::time::Duration;

use awa_worker::{JobError, Schedule};
use serde_json::Value;

use crate::proxy::{Flow, Proxy};
use crate::support::{Gate, Probe, Rig, drain, until};
use crate::worker::{CONNECTIONS, DISCONNECT, GATES, JOBS, answer, client, enqueue, in_state};
use crate::{log, support};

const HOUR: Duration = Duration::from_secs(3600);

// CONN-01: idle, in use, listening.
#[tokio::test]
async fn worker_outlives_its_connections_twenty_times_with_fifty_jobs_in_flight() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe| {
        let gate = passed.clone();
        async move {
            gate.passed().await;
            Ok::<_, JobError>(Value::Null)
        }
    };
    let running = client(&rig.pool, 10).register(handler).build().unwrap().start().await.unwrap();
    enqueue(&rig.pool, 50).await;
    in_state(&rig.pool, "running", 10).await;
    for _ in 0..20 {
        until("connections", async || rig.count(CONNECTIONS).await > 1).await;
        rig.count(DISCONNECT).await;
    }
    gate.open();
    in_state(&rig.pool, "completed", 50).await;
    enqueue(&rig.pool, 200).await;
    in_state(&rig.pool, "completed", 250).await;
    drain(&running).await;
    assert_eq!(rig.count(JOBS).await, 250);
}

// CONN-02: nobody polls here.
#[tokio::test]
async fn connection_that_listens_comes_back_with_what_was_enqueued_meanwhile() {
    log::record();
    let rig = Rig::new().await;
    let running = client(&rig.pool, 10).poll_interval(HOUR).register(answer).build().unwrap().start().await.unwrap();
    for round in 1..=3 {
        until("sleep", async || rig.count(GATES).await == 1).await;
        let gone = rig
            .count(
                "select count(pg_terminate_backend(pid)) from pg_locks where locktype = 'advisory' and classid = 1096237385
                and mode = 'ExclusiveLock'
                    and database = (select oid from pg_database where datname = current_database())",
            )
            .await;
        assert_eq!(gone, 1);
        enqueue(&rig.pool, 1).await;
        in_state(&rig.pool, "completed", 2 * round - 1).await;
        until("sleep", async || rig.count(GATES).await == 1).await;
        enqueue(&rig.pool, 1).await;
        in_state(&rig.pool, "completed", 2 * round).await;
    }
    drain(&running).await;
    log::logged(&["the connection that listens is lost"]).await;
    log::logged(&["listening again"]).await;
}

/// Refuses every connection until `outage` is over, with jobs running, waiting and enqueued in it.
async fn outage(outage: impl AsyncFnOnce(&Proxy)) {
    log::record();
    let rig = Rig::new().await;
    let proxy = Proxy::before(&rig.database.options()).await;
    let through = sqlx::PgPool::connect_with(proxy.options(rig.database.options())).await.unwrap();
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe| {
        let gate = passed.clone();
        async move {
            gate.passed().await;
            Ok::<_, JobError>(Value::Null)
        }
    };
    let running = client(&through, 10).poll_interval(HOUR).register(handler).build().unwrap().start().await.unwrap();
    enqueue(&rig.pool, 30).await;
    in_state(&rig.pool, "running", 10).await;
    proxy.admit(Flow::Cut);
    proxy.set_all(Flow::Cut);
    enqueue(&rig.pool, 30).await;
    gate.open();
    outage(&proxy).await;
    proxy.admit(Flow::Free);
    in_state(&rig.pool, "completed", 60).await;
    enqueue(&rig.pool, 30).await;
    in_state(&rig.pool, "completed", 90).await;
    assert_eq!(rig.count(JOBS).await, 90);
    support::soon("end", running.shutdown(awa_worker::Shutdown::Now)).await.unwrap();
    log::logged(&["outcomes could not be written: trying again"]).await;
}

// CONN-04
#[tokio::test]
async fn worker_that_was_refused_for_a_while_goes_on_by_itself() {
    outage(async |proxy| proxy.turned_away(30).await).await;
}

/// What the leader has noted about times; nothing while the database does not answer.
async fn ticks(rig: &Rig, outcome: &str) -> i64 {
    sqlx::query_scalar("select count(*) from awa.cron_ticks where outcome = $1")
        .bind(outcome)
        .fetch_one(&rig.pool)
        .await
        .unwrap()
}

// CRON-05: ten minutes pass in which nobody can enqueue anything.
#[tokio::test]
async fn schedules_come_round_again_after_an_outage_and_what_was_missed_is_one_job() {
    let rig = Rig::new().await;
    let proxy = Proxy::before(&rig.database.options()).await;
    let through = sqlx::PgPool::connect_with(proxy.options(rig.database.options())).await.unwrap();
    let every_second = Schedule::new("every second", "* * * * * *", support::probe("a"));
    let client = client(&through, 10).schedule(every_second).register(answer).build().unwrap();
    let running = client.start().await.unwrap();
    until("a first time", async || ticks(&rig, "fired").await > 0).await;
    proxy.admit(Flow::Cut);
    proxy.set_all(Flow::Cut);
    proxy.turned_away(10).await;
    let gap = "update awa.cron_schedules set next_at = next_at - interval '10 minutes'";
    assert_eq!(sqlx::query(gap).execute(&rig.pool).await.unwrap().rows_affected(), 1);
    rig.execute("delete from awa.cron_ticks").await;
    proxy.admit(Flow::Free);
    until("times that were missed", async || ticks(&rig, "missed").await > 0).await;
    until("times that follow", async || ticks(&rig, "fired").await > 2).await;
    let span = "select count(*) from awa.cron_ticks where missed_since < slot - interval '9 minutes'";
    assert_eq!(rig.count(span).await, 1);
    let fired = "select count(*) from awa.cron_ticks where outcome = 'fired'
                    and slot between now() - interval '11 minutes' and now() - interval '5 minutes'";
    assert_eq!(rig.count(fired).await, 0);
    support::soon("end", running.shutdown(awa_worker::Shutdown::Now)).await.unwrap();
}

mod long {
    use super::{Duration, outage};

    // CONN-04
    #[tokio::test]
    async fn worker_that_was_refused_for_a_quarter_of_an_hour_goes_on_by_itself() {
        let quarter = tokio::time::timeout(Duration::from_secs(900), std::future::pending::<()>());
        outage(async |_| drop(quarter.await)).await;
    }
}
