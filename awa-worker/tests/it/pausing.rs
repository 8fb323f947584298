//! STATE-12: a paused queue hands out nothing, whatever else goes on, and a resumed one begins at once.

use std::time::Duration;

use awa_worker::{Client, JobError, NewJob};
use serde_json::Value;

use crate::support::{Probe, Rig, drain, events, probe, soon, until};

/// Workers that sleep: they hold the gate of their queue.
const SLEEPERS: &str = "select count(*) from pg_locks where locktype = 'advisory' and classid = 1096237385 and granted
     and mode = 'ExclusiveLock' and database = (select oid from pg_database where datname = current_database())";
const WAITING: &str = "select count(*) from awa.jobs where state = 'available'";
const DONE: &str = "select count(*) from awa.jobs where state = 'completed'";

/// A worker that would not poll again while a test runs.
fn client(rig: &Rig) -> Client {
    let handler = async |_: Probe| Ok::<_, JobError>(Value::Null);
    rig.client().poll_interval(Duration::from_secs(3600)).register(handler).build().unwrap()
}

async fn dozing(rig: &Rig) {
    until("sleep", async || rig.count(SLEEPERS).await == 1).await;
}

#[tokio::test]
async fn a_resumed_queue_starts_its_thousand_waiting_jobs_at_once() {
    let rig = Rig::with_sessions().await;
    let client = client(&rig);
    assert!(client.pause_queue("default").await.unwrap());
    client.enqueue_many((0..1000).map(|n| probe(&n.to_string()))).await.unwrap();
    let running = client.start().await.unwrap();
    dozing(&rig).await;
    assert_eq!(rig.count(WAITING).await, 1000);
    assert!(client.resume_queue("default").await.unwrap());
    until("work", async || rig.count(DONE).await == 1000).await;
    drain(&running).await;
}

#[tokio::test]
async fn a_pause_holds_over_a_restart_of_the_worker_and_for_jobs_that_come_or_become_due() {
    let rig = Rig::with_sessions().await;
    let client = client(&rig);
    assert!(client.pause_queue("default").await.unwrap());
    for _ in 0..2 {
        let running = client.start().await.unwrap();
        rig.enqueue(probe("now")).await;
        rig.enqueue(NewJob::new(&probe("later")).run_in(Duration::from_secs(3600))).await;
        rig.promote().await;
        dozing(&rig).await;
        drain(&running).await;
    }
    assert_eq!((rig.count(WAITING).await, rig.count(DONE).await), (4, 0));
    assert!(client.resume_queue("default").await.unwrap());
    let running = client.start().await.unwrap();
    until("work", async || rig.count(DONE).await == 4).await;
    drain(&running).await;
}

#[tokio::test]
async fn after_a_pause_has_answered_only_claims_in_flight_begin_and_other_queues_go_on() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |job: Probe| {
        let tell = tell.clone();
        async move {
            tell.send(job.name).unwrap();
            Ok::<_, JobError>(Value::Null)
        }
    };
    let client = rig.client().queue("default", awa_worker::QueueConfig::new().max_workers(4));
    let client = client.queue("other", awa_worker::QueueConfig::new()).register(handler).build().unwrap();
    client.enqueue_many((0..2000).map(|n| probe(&n.to_string()))).await.unwrap();
    let running = client.start().await.unwrap();
    soon("start", told.recv()).await.unwrap();
    assert!(client.pause_queue("default").await.unwrap());
    // A claim that read the setting before it changed is at an end once a later statement of the same worker is.
    rig.enqueue(NewJob::new(&probe("mark")).queue("other")).await;
    while soon("mark", told.recv()).await.unwrap() != "mark" {}
    let left = rig.count(WAITING).await;
    assert!(left > 0, "paused while there was work");
    rig.enqueue(NewJob::new(&probe("mark")).queue("other")).await;
    while soon("mark", told.recv()).await.unwrap() != "mark" {}
    assert_eq!(rig.count(WAITING).await, left);
    assert!(client.resume_queue("default").await.unwrap());
    until("work", async || rig.count(WAITING).await == 0).await;
    drain(&running).await;
}
