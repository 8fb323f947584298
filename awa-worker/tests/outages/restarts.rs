//! A server that crashes, restarts, comes back as one that only reads, or whose processes stand still.

use std::time::Duration;

use awa_model::WorkerId;
use awa_storage::Cursors;
use awa_storage::workers::{WorkerInfo, register};
use awa_worker::{JobContext, JobError};
use serde_json::Value;
use sqlx::PgPool;

use crate::log;
use crate::server::{Frozen, PrivateServer};
use crate::support::{Gate, Probe, drain, soon, until};
use crate::worker::{CLAIM, GATES, JOBS, answer, client, count, enqueue, in_state};

const HOUR: Duration = Duration::from_secs(3600);

/// A pool for workers: what is done to their connections must not befall those of the test.
fn pool(server: &PrivateServer) -> PgPool {
    PgPool::connect_lazy(&server.url).unwrap()
}

/// So many crashes and restarts, with fifty jobs in flight in each and more enqueued right after it.
async fn crashes(rounds: usize) {
    let mut server = PrivateServer::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let gate = passed.clone();
        async move {
            if job.name != "0" {
                // One that was rescued gives its slot to the next attempt, which on a busy machine the slots have to last for.
                tokio::select! {
                    () = gate.passed() => {}
                    () = context.cancelled() => return Err("interrupted".into()),
                }
            }
            Ok::<_, JobError>(Value::Null)
        }
    };
    let client = client(&pool(&server), 60).stale_after(Duration::from_secs(10)).register(handler);
    let running = client.build().unwrap().start().await.unwrap();
    enqueue(&server.pool, 51).await;
    in_state(&server.pool, "running", 50).await;
    for round in 1..=rounds {
        server.tell("kill");
        server.tell("start");
        enqueue(&server.pool, 1).await;
        in_state(&server.pool, "completed", 1 + round).await;
    }
    gate.open();
    in_state(&server.pool, "completed", 51 + rounds).await;
    assert_eq!(count(&server.pool, JOBS).await, Some(51 + rounds as i64));
    drain(&running).await;
}

// CONN-01
#[tokio::test]
async fn crash_of_the_server_with_fifty_jobs_in_flight_loses_none() {
    crashes(2).await;
}

/// Leaves jobs running that nobody works on, as a process does that was killed.
async fn abandoned(pool: &PgPool, jobs: usize) {
    enqueue(pool, jobs).await;
    let worker = WorkerId::random();
    let info = WorkerInfo {
        id: worker,
        name: "killed".to_owned(),
        host: "elsewhere".to_owned(),
        pid: 1,
        version: "0".to_owned(),
        queues: vec!["default".to_owned()],
        kinds: vec!["probe".to_owned()],
    };
    register(pool, &info).await.unwrap();
    let queue: awa_model::QueueName = "default".parse().unwrap();
    let cursors = Cursors::new(worker, &["probe".parse().unwrap()], std::slice::from_ref(&queue));
    cursors.load(pool).await.unwrap();
    let mut claimed = 0;
    while claimed < jobs {
        claimed += cursors.claim(pool, &[(queue.clone(), jobs)]).await.unwrap().len();
    }
}

// LOST-02: the server goes down in the middle of the sweep.
#[tokio::test]
async fn crash_during_a_rescue_of_250_jobs_loses_none() {
    log::record();
    let mut server = PrivateServer::new().await;
    abandoned(&server.pool, 250).await;
    let mut held = server.pool.begin().await.unwrap();
    sqlx::raw_sql("lock table awa.scheduled_jobs in share row exclusive mode").execute(&mut *held).await.unwrap();
    let running = client(&pool(&server), 10).register(answer).build().unwrap().start().await.unwrap();
    let sweeping =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%awa.rescue(%'";
    until("a sweep", async || count(&server.pool, sweeping).await == Some(1)).await;
    server.tell("kill");
    drop(held);
    server.tell("start");
    in_state(&server.pool, "completed", 250).await;
    assert_eq!(count(&server.pool, JOBS).await, Some(250));
    assert_eq!(count(&server.pool, "select count(*) from awa.jobs where attempt = 2").await, Some(250));
    log::logged(&["a pass failed and is repeated", "duty=\"rescue\""]).await;
    drain(&running).await;
}

// CONN-02: where nobody can LISTEN, and nothing can be written, for a while.
#[tokio::test]
async fn worker_outlasts_a_server_that_only_reads_and_listens_again_once_it_is_promoted() {
    log::record();
    let mut server = PrivateServer::new().await;
    let worker = client(&pool(&server), 10).poll_interval(HOUR).register(answer).build().unwrap();
    let running = worker.start().await.unwrap();
    enqueue(&server.pool, 5).await;
    in_state(&server.pool, "completed", 5).await;
    server.tell("stand-by");
    until("it answers", async || count(&server.pool, "select pg_is_in_recovery()::int::bigint").await == Some(1)).await;
    log::logged(&["read-only"]).await;
    server.tell("promote");
    enqueue(&server.pool, 5).await;
    in_state(&server.pool, "completed", 10).await;
    until("sleep", async || count(&server.pool, GATES).await == Some(1)).await;
    enqueue(&server.pool, 5).await;
    in_state(&server.pool, "completed", 15).await;
    drain(&running).await;
}

// CONN-09: the process that serves a claim stands still; heartbeats, settlements and maintenance go on meanwhile.
#[tokio::test]
async fn process_of_the_server_that_stands_still_stops_no_other_loop() {
    log::record();
    let server = PrivateServer::new().await;
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe| {
        let gate = passed.clone();
        async move {
            gate.passed().await;
            Ok::<_, JobError>(Value::Null)
        }
    };
    let worker = client(&pool(&server), 10).stale_after(Duration::from_secs(10)).register(handler).build().unwrap();
    let running = worker.start().await.unwrap();
    enqueue(&server.pool, 3).await;
    in_state(&server.pool, "running", 3).await;
    until("sleep", async || count(&server.pool, GATES).await == Some(1)).await;
    let mut held = server.pool.begin().await.unwrap();
    sqlx::raw_sql("lock table awa.active_claims in share row exclusive mode").execute(&mut *held).await.unwrap();
    enqueue(&server.pool, 3).await;
    let claiming = "select pid from pg_stat_activity where wait_event_type = 'Lock' and query like '%' || $1 || '%'";
    let claim = async {
        loop {
            let pid: Option<i32> = sqlx::query_scalar(claiming).bind(CLAIM).fetch_optional(&server.pool).await.unwrap();
            if let Some(pid) = pid {
                return pid;
            }
        }
    };
    let pid = soon("a claim", claim).await;
    let frozen = Frozen::new(pid);
    held.rollback().await.unwrap();
    gate.open();
    in_state(&server.pool, "completed", 3).await;
    enqueue(&server.pool, 3).await;
    in_state(&server.pool, "completed", 9).await;
    log::logged(&["jobs could not be claimed: trying again", "timed out"]).await;
    drop(frozen);
    assert_eq!(count(&server.pool, JOBS).await, Some(9));
    drain(&running).await;
}

mod long {
    use super::crashes;

    // CONN-01
    #[tokio::test]
    async fn twenty_crashes_of_the_server_with_fifty_jobs_in_flight_lose_none() {
        crashes(20).await;
    }
}
