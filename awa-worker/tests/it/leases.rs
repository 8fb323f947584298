//! Attempts that were taken away: told of it, and unable to write.

use std::time::Duration;

use awa_storage::rescue::{RescueCursor, RescueLimits, rescue};
use awa_worker::{CancelReason, Client, JobContext, JobError};
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{Gate, Probe, Rig, drain, events, probe, soon};

/// Rescues every attempt that gave no sign of life for this long.
pub(crate) async fn rescue_all(pool: &PgPool, silence: Duration) -> usize {
    let limits = RescueLimits {
        worker_silence: Duration::from_secs(3600),
        attempt_silence: silence,
        deadline_grace: Duration::from_secs(3600),
        jobs_max: 1000,
        budget: Duration::from_secs(10),
    };
    rescue(pool, &limits, RescueCursor::default()).await.expect("rescued").jobs.len()
}

/// A handler whose first attempt waits at a gate and ignores everything else, and what it says.
fn stubborn(rig: &Rig, interval: Duration, gate: &Gate) -> (Client, UnboundedReceiver<JobContext>) {
    let (tell, told) = events();
    let gate = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), gate.clone());
        async move {
            let attempt = context.attempt();
            tell.send(context).unwrap();
            if attempt == 1 {
                gate.passed().await;
            }
            Ok::<Value, JobError>(json!(attempt))
        }
    };
    // Whoever listens is told at once; here heartbeats have to find out.
    let builder = rig.client().without_listen().heartbeat_interval(interval).stale_after(interval * 4);
    (builder.register(handler).build().unwrap(), told)
}

// DUP-01
#[tokio::test]
async fn lost_lease_cancels_the_handler_and_its_late_result_is_discarded() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = stubborn(&rig, Duration::from_millis(100), &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let first = soon("start", told.recv()).await.unwrap();
    assert_eq!(rescue_all(&rig.pool, Duration::ZERO).await, 1);
    soon("cancellation", first.cancelled()).await;
    assert_eq!(first.cancel_reason(), Some(CancelReason::LeaseLost));
    let rescued = rig.row(id).await;
    assert_eq!((rescued.state.as_str(), rescued.attempt), ("retryable", 1));
    gate.open();
    drain(&running).await;
    assert_eq!(rig.row(id).await, rescued);
}

#[tokio::test]
async fn result_of_a_lease_lost_unnoticed_is_refused_by_the_database() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = stubborn(&rig, Duration::from_secs(30), &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let first = soon("start", told.recv()).await.unwrap();
    assert_eq!(rescue_all(&rig.pool, Duration::ZERO).await, 1);
    let rescued = rig.row(id).await;
    assert!(!first.is_cancelled());
    gate.open();
    drain(&running).await;
    assert_eq!(rig.row(id).await, rescued);
}

#[tokio::test]
async fn second_lease_in_the_same_process_ends_the_first() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = stubborn(&rig, Duration::from_secs(30), &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let first = soon("start", told.recv()).await.unwrap();
    assert_eq!(rescue_all(&rig.pool, Duration::ZERO).await, 1);
    rig.promote().await;
    let second = soon("second start", told.recv()).await.unwrap();
    assert!(second.run_lease() > first.run_lease());
    soon("cancellation", first.cancelled()).await;
    let row = rig.state(id, "completed").await;
    assert_eq!((row.attempt, row.result.clone()), (2, Some(json!(2))));
    gate.open();
    drain(&running).await;
    assert_eq!(rig.row(id).await, row);
}

#[tokio::test]
async fn running_attempts_beat_and_are_not_rescued() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = stubborn(&rig, Duration::from_millis(100), &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    // Longer than its claim alone would keep it alive.
    let beaten = "select count(*) from awa.jobs where heartbeat_at > attempted_at + interval '2 seconds'";
    crate::support::until("beats", async || rig.count(beaten).await == 1).await;
    assert_eq!(rescue_all(&rig.pool, Duration::from_secs(2)).await, 0);
    gate.open();
    rig.state(id, "completed").await;
    drain(&running).await;
}

// PROC-02
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_that_block_every_thread_are_not_taken_for_dead() {
    blocking_handlers_are_not_rescued(4, 2).await;
}

#[tokio::test]
async fn handlers_that_block_the_only_thread_are_not_taken_for_dead() {
    blocking_handlers_are_not_rescued(2, 2).await;
}

mod long {
    // PROC-02
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn eight_handlers_that_block_two_threads_are_not_taken_for_dead() {
        super::blocking_handlers_are_not_rescued(8, 3).await;
    }

    // PROC-02
    #[tokio::test]
    async fn eight_handlers_that_block_the_only_thread_are_not_taken_for_dead() {
        super::blocking_handlers_are_not_rescued(8, 3).await;
    }
}

/// Handlers block their threads for so many times as long as a silent attempt lives, while somebody else rescues.
async fn blocking_handlers_are_not_rescued(jobs: usize, times: u32) {
    const SILENCE: Duration = Duration::from_secs(1);
    let rig = Rig::new().await;
    let handler = move |_: Probe| async move {
        let (_tell, told) = std::sync::mpsc::channel::<()>();
        let _ = told.recv_timeout(SILENCE * times);
        Ok::<_, JobError>(Value::Null)
    };
    let client = rig.client().register(handler).build().unwrap();
    let mut ids = Vec::new();
    for _ in 0..jobs {
        ids.push(rig.enqueue(probe("a")).await);
    }
    // The rescuer has a thread of its own: this runtime has none to spare.
    let options = rig.database.options();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let rescuer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
            let mut rescued = 0;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                rescued += rescue_all(&pool, SILENCE).await;
            }
            pool.close().await;
            rescued
        })
    });
    let running = client.start().await.unwrap();
    for id in ids {
        assert_eq!(rig.state(id, "completed").await.attempt, 1);
    }
    stop.send(()).unwrap();
    assert_eq!(rescuer.join().unwrap(), 0);
    drain(&running).await;
}

#[tokio::test]
async fn process_that_was_forgotten_registers_again() {
    let rig = Rig::new().await;
    let client = rig.client().register(async |_: Probe| Ok::<_, JobError>(Value::Null)).build().unwrap();
    let running = client.start().await.unwrap();
    rig.execute("delete from awa.workers").await;
    crate::support::until("registration", async || rig.count("select count(*) from awa.workers").await == 1).await;
    drain(&running).await;
}
