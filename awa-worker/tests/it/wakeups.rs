//! How work is noticed.

use std::time::Duration;

use awa_worker::{Client, JobError, NewJob, QueueConfig};
use serde_json::Value;

use crate::support::{Gate, Probe, Rig, drain, events, probe, soon, until};

const HOUR: Duration = Duration::from_secs(3600);

fn client(rig: &Rig, poll: Duration) -> Client {
    rig.client().poll_interval(poll).register(async |_: Probe| Ok::<_, JobError>(Value::Null)).build().unwrap()
}

/// The gate of a queue is a session lock of the listening connection.
pub(crate) const GATES: &str =
    "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1096237385
    and mode = 'ExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())";

#[tokio::test]
async fn sleeping_worker_is_woken_and_sleeps_again() {
    let rig = Rig::with_sessions().await;
    let running = client(&rig, HOUR).start().await.unwrap();
    for _ in 0..3 {
        until("sleep", async || rig.count(GATES).await == 1).await;
        let id = rig.enqueue(probe("a")).await;
        rig.state(id, "completed").await;
    }
    drain(&running).await;
}

#[tokio::test]
async fn job_that_commits_late_wakes_a_sleeper() {
    let rig = Rig::with_sessions().await;
    let running = client(&rig, HOUR).start().await.unwrap();
    until("sleep", async || rig.count(GATES).await == 1).await;
    let mut early = rig.pool.begin().await.unwrap();
    let late = awa_worker::enqueue(&mut *early, probe("late")).await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    rig.state(id, "completed").await;
    early.commit().await.unwrap();
    let awa_worker::Inserted::New(late) = late else { panic!("{late:?}") };
    rig.state(late.get(), "completed").await;
    drain(&running).await;
}

#[tokio::test]
async fn worker_without_listen_polls() {
    let rig = Rig::with_sessions().await;
    let handler = async |_: Probe| Ok::<_, JobError>(Value::Null);
    let client =
        rig.client().without_listen().poll_interval(Duration::from_millis(10)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    for _ in 0..3 {
        let id = rig.enqueue(probe("a")).await;
        rig.state(id, "completed").await;
    }
    assert_eq!(rig.count(GATES).await, 0);
    drain(&running).await;
}

// NOTIFY-06: one notification wakes all who sleep, however many jobs it announces and however they came.
#[tokio::test]
async fn many_jobs_at_once_wake_every_idle_worker() {
    const WORKERS: usize = 4;
    const SLOTS: usize = 10;
    for way in ["one statement", "copy", "promotion"] {
        let rig = Rig::with_sessions().await;
        let gate = Gate::new();
        let (tell, mut told) = events();
        let passed = gate.clone();
        let handler = move |_: Probe| {
            let (tell, gate) = (tell.clone(), passed.clone());
            async move {
                tell.send(()).unwrap();
                gate.passed().await;
                Ok::<_, JobError>(Value::Null)
            }
        };
        let builder = rig.client().poll_interval(HOUR).queue("default", QueueConfig::new().max_workers(SLOTS));
        let client = builder.register(handler).build().unwrap();
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            workers.push(client.start().await.unwrap());
        }
        until("sleep", async || rig.count(GATES).await == 1).await;
        let jobs = (0..100).map(|_| probe("a"));
        match way {
            "one statement" => drop(client.enqueue_many(jobs).await.unwrap()),
            "copy" => drop(client.enqueue_copy(&mut rig.database.connect().await, jobs).await.unwrap()),
            _ => {
                let later: Vec<_> = jobs.map(|job| NewJob::new(&job).run_in(HOUR)).collect();
                drop(client.enqueue_many(later).await.unwrap());
                rig.promote().await;
            }
        }
        for slot in 0..WORKERS * SLOTS {
            soon(&format!("job in slot {slot}, by {way}"), told.recv()).await.unwrap();
        }
        gate.open();
        for worker in &workers {
            drain(worker).await;
        }
    }
}

/// The doze lock of a queue, by the connection that listens.
const DOZES: &str = "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1096237387
    and mode = 'ExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())";

/// Enqueues jobs one by one until some worker dozes.
async fn trickle_until_somebody_dozes(rig: &Rig) {
    until("doze", async || {
        rig.enqueue(probe("a")).await;
        rig.count(DOZES).await == 1
    })
    .await;
}

#[tokio::test]
async fn worker_that_is_given_jobs_one_by_one_dozes_until_it_sleeps() {
    let rig = Rig::with_sessions().await;
    let running = client(&rig, HOUR).start().await.unwrap();
    for _ in 0..2 {
        until("sleep", async || rig.count(GATES).await == 1).await;
        assert_eq!(rig.count(DOZES).await, 0);
        trickle_until_somebody_dozes(&rig).await;
    }
    let id = rig.enqueue(probe("last")).await;
    rig.state(id, "completed").await;
    drain(&running).await;
    until("nothing", async || rig.count(DOZES).await + rig.count(GATES).await == 0).await;
}

#[tokio::test]
async fn job_that_commits_while_others_announce_nothing_is_found() {
    let rig = Rig::with_sessions().await;
    let running = client(&rig, HOUR).start().await.unwrap();
    for _ in 0..3 {
        trickle_until_somebody_dozes(&rig).await;
        // Whoever is open announces for all, and does so late, or never.
        let mut open = rig.pool.begin().await.unwrap();
        let _ = awa_worker::enqueue(&mut *open, probe("open")).await.unwrap();
        for _ in 0..10 {
            let id = rig.enqueue(probe("a")).await;
            rig.state(id, "completed").await;
        }
        open.rollback().await.unwrap();
    }
    drain(&running).await;
}

/// The session that sleeps, and the one that dozes. Nobody: 0.
const SLEEPER: &str = "select coalesce(max(pid), 0)::bigint from pg_locks where locktype = 'advisory' and granted
    and classid = 1096237385 and mode = 'ExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())";
const DOZER: &str = "select coalesce(max(pid), 0)::bigint from pg_locks where locktype = 'advisory' and granted
    and classid = 1096237387 and mode = 'ExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())";

#[tokio::test]
async fn worker_without_a_free_slot_leaves_dozing_to_others() {
    let rig = Rig::with_sessions().await;
    let (gate, (tell, mut told)) = (Gate::new(), events());
    let passed = gate.clone();
    let handler = move |job: Probe| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            if job.name == "long" {
                tell.send(()).unwrap();
                gate.passed().await;
            }
            Ok::<_, JobError>(Value::Null)
        }
    };
    let narrow = rig.client().poll_interval(HOUR).queue("default", QueueConfig::new().max_workers(1));
    let full = narrow.register(handler).build().unwrap().start().await.unwrap();
    until("sleep", async || rig.count(GATES).await == 1).await;
    let its_session = rig.count(SLEEPER).await;
    trickle_until_somebody_dozes(&rig).await;
    let long = rig.enqueue(probe("long")).await;
    soon("its only slot", told.recv()).await.unwrap();
    let free = client(&rig, HOUR).start().await.unwrap();
    until("the other", async || {
        rig.enqueue(probe("a")).await;
        ![0, its_session].contains(&rig.count(DOZER).await)
    })
    .await;
    let id = rig.enqueue(probe("a")).await;
    rig.state(id, "completed").await;
    gate.open();
    rig.state(long, "completed").await;
    drain(&free).await;
    drain(&full).await;
}

mod long {
    use std::collections::HashSet;

    use super::*;

    #[tokio::test]
    async fn workers_take_turns_at_dozing() {
        let rig = Rig::with_sessions().await;
        let workers = [client(&rig, HOUR).start().await.unwrap(), client(&rig, HOUR).start().await.unwrap()];
        let mut holders = HashSet::new();
        while holders.len() < workers.len() {
            trickle_until_somebody_dozes(&rig).await;
            holders.extend(Some(rig.count(DOZER).await).filter(|holder| *holder > 0));
        }
        for worker in &workers {
            drain(worker).await;
        }
    }
}
