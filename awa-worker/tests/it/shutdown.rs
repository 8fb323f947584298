//! How a worker ends.

use std::sync::Arc;
use std::time::Duration;

use awa_worker::{CancelReason, Client, JobContext, JobError, JobId, NewJob, QueueConfig, Shutdown, UnfinishedEnd};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{Gate, PATIENCE, Probe, Rig, drain, events, probe, soon, until};

/// Connections of workers.
pub(crate) const CONNECTIONS: &str =
    "select count(*) from pg_stat_activity where application_name like 'awa %' and datname = current_database()";

const DRAIN: Shutdown = Shutdown::Drain { timeout: PATIENCE };

/// A handler that waits at a gate, whatever it is asked; and a word when it starts.
pub(crate) fn waiting(rig: &Rig, gate: &Gate) -> (Client, UnboundedReceiver<JobContext>) {
    let (tell, told) = events();
    let gate = gate.clone();
    let handler = move |job: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), gate.clone());
        async move {
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(json!(job.name))
        }
    };
    (rig.client().register(handler).build().unwrap(), told)
}

#[tokio::test]
async fn drain_lets_running_jobs_finish_and_claims_nothing_more() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let running = Arc::new(client.start().await.unwrap());
    let id = rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    let ending = tokio::spawn({
        let running = Arc::clone(&running);
        async move { running.shutdown(DRAIN).await }
    });
    // DUP-10: what comes now is for others. DUP-08: what runs goes on beating.
    let beaten = "select count(*) from awa.jobs where heartbeat_at > attempted_at + interval '500 milliseconds'";
    until("beats", async || rig.count(beaten).await == 1).await;
    let late = rig.enqueue(probe("late")).await;
    until("beats", async || {
        rig.count("select count(*) from awa.jobs where heartbeat_at > now() - interval '50 ms'").await == 1
    })
    .await;
    gate.open();
    let report = soon("end", ending).await.unwrap().unwrap();
    assert_eq!((report.returned, report.left_to_rescue), (0, 0));
    assert_eq!(rig.row(id).await.state, "completed");
    let late = rig.row(late).await;
    assert_eq!((late.state.as_str(), late.run_lease), ("available", 0));
    assert_eq!(rig.count("select count(*) from awa.workers").await, 0);
}

#[tokio::test]
async fn jobs_that_do_not_stop_go_back_without_costing_an_attempt() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let context = soon("start", told.recv()).await.unwrap();
    let report = soon("end", running.shutdown(Shutdown::Now)).await.unwrap();
    assert_eq!((report.returned, report.left_to_rescue), (1, 0));
    assert_eq!(context.cancel_reason(), Some(CancelReason::Shutdown));
    let row = rig.row(id).await;
    assert_eq!((row.state.as_str(), row.attempt, row.run_lease, row.errors), ("available", 0, 1, None));
}

#[tokio::test]
async fn jobs_that_stop_when_asked_go_back_without_costing_an_attempt() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            tell.send(()).unwrap();
            context.cancelled().await;
            context.set_checkpoint("reached", &7)?;
            Err::<Value, JobError>("interrupted".into())
        }
    };
    let client = rig.client().cancel_grace(PATIENCE).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    assert_eq!(soon("end", running.shutdown(Shutdown::Now)).await.unwrap().returned, 1);
    let row = rig.row(id).await;
    assert_eq!((row.state.as_str(), row.attempt, &row.errors), ("available", 0, &None));
    assert_eq!(row.progress.unwrap()["metadata"]["reached"], json!(7));
}

#[tokio::test]
async fn report_names_what_was_left_and_nothing_else() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |job: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            tell.send(()).unwrap();
            match job.name.as_str() {
                "deaf" => std::future::pending().await,
                "done in the grace" => context.cancelled().await,
                "stops" => {
                    context.cancelled().await;
                    return Err("interrupted".into());
                }
                _ => {}
            }
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let builder = rig.client().queue("slow", QueueConfig::new());
    let running = builder.register(handler).build().unwrap().start().await.unwrap();
    let mut ids = Vec::new();
    for name in ["deaf", "done in the grace", "stops"] {
        ids.push(rig.enqueue(NewJob::new(&probe(name)).queue("slow")).await);
        soon("start", told.recv()).await.unwrap();
    }
    let report = soon("end", running.shutdown(Shutdown::Now)).await.unwrap();
    assert_eq!((report.returned, report.left_to_rescue), (2, 0));
    let mut unfinished = report.unfinished;
    unfinished.sort_by_key(|job| job.job_id);
    let named: Vec<_> = unfinished.iter().map(|job| (job.job_id, job.attempt, job.end)).collect();
    let returned = |id| (JobId::new(id), 1, UnfinishedEnd::Returned);
    assert_eq!(named, [returned(ids[0]), returned(ids[2])]);
    assert!(unfinished.iter().all(|job| job.kind.as_str() == "probe" && job.queue.as_str() == "slow"));
    assert!(unfinished.iter().all(|job| job.ran_for > Duration::ZERO));
    assert_eq!(rig.row(ids[1]).await.state, "completed");
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'available' and attempt = 0").await, 2);
}

/// The grace is for those that need it: with one of a day, a drain ends as soon as the last handler has returned.
#[tokio::test]
async fn nobody_waits_for_the_grace_when_all_handlers_have_returned() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            tell.send(()).unwrap();
            context.cancelled().await;
            Err::<Value, JobError>("interrupted".into())
        }
    };
    let client = rig.client().cancel_grace(Duration::from_secs(86_400)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    let report = soon("end", running.shutdown(Shutdown::Drain { timeout: Duration::ZERO })).await.unwrap();
    assert_eq!(report.returned, 1);
    assert_eq!(rig.row(id).await.state, "available");
}

/// A database that hangs is waited for, but not for ever, and what could not be written is named.
#[tokio::test]
async fn hung_database_does_not_hold_up_the_end() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    let mut hanging = rig.pool.begin().await.unwrap();
    sqlx::raw_sql("lock table awa.jobs_hot, awa.workers, awa.ring in access exclusive mode")
        .execute(&mut *hanging)
        .await
        .unwrap();
    let report = soon("end", running.shutdown(Shutdown::Now)).await.unwrap();
    assert_eq!((report.returned, report.left_to_rescue), (0, 1));
    assert_eq!((report.unfinished[0].job_id, report.unfinished[0].end), (JobId::new(id), UnfinishedEnd::LeftToRescue));
    hanging.rollback().await.unwrap();
    assert_eq!(crate::leases::rescue_all(&rig.pool, Duration::ZERO).await, 1);
    assert_eq!(rig.row(id).await.state, "retryable");
}

// PROC-06
#[tokio::test]
async fn shutdown_may_be_asked_for_at_once_and_again() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let running = Arc::new(client.start().await.unwrap());
    rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    let asked: Vec<_> = [DRAIN, Shutdown::Now, DRAIN]
        .into_iter()
        .map(|how| {
            let running = Arc::clone(&running);
            tokio::spawn(async move { running.shutdown(how).await.unwrap() })
        })
        .collect();
    for one in asked {
        // The least patient has decided.
        assert_eq!(soon("end", one).await.unwrap().returned, 1);
    }
    assert_eq!(soon("end", running.shutdown(DRAIN)).await.unwrap().returned, 1);
}

#[tokio::test]
async fn dropped_worker_returns_its_jobs_by_itself() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    drop(running);
    assert_eq!(rig.state(id, "available").await.attempt, 0);
    until("farewell", async || rig.count("select count(*) from awa.workers").await == 0).await;
}

#[tokio::test]
async fn dropped_run_until_returns_its_jobs_by_itself() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let id = rig.enqueue(probe("a")).await;
    tokio::select! {
        ended = client.run_until(std::future::pending()) => panic!("{ended:?}"),
        started = told.recv() => assert!(started.is_some()),
    }
    assert_eq!(rig.state(id, "available").await.attempt, 0);
}

#[tokio::test]
async fn run_until_drains_when_told() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    gate.open();
    let (client, mut told) = waiting(&rig, &gate);
    let id = rig.enqueue(probe("a")).await;
    let started = async { assert!(told.recv().await.is_some()) };
    soon("end", client.run_until(started)).await.unwrap();
    assert_eq!(rig.row(id).await.state, "completed");
}

// I11: dropped at whichever await, a start leaves no worker behind.
#[tokio::test]
async fn dropped_start_leaves_nothing_behind() {
    let rig = Rig::with_sessions().await;
    let gate = Gate::new();
    gate.open();
    let (client, _told) = waiting(&rig, &gate);
    let mut polls = 0;
    loop {
        let mut start = Box::pin(client.start());
        let mut started = None;
        for _ in 0..polls {
            started = futures_util::future::FutureExt::now_or_never(start.as_mut());
            if started.is_some() {
                break;
            }
            // Its statements go on while this one is waited for.
            rig.count("select count(*) from awa.workers").await;
        }
        drop(start);
        if let Some(running) = started {
            drain(&running.unwrap()).await;
            break;
        }
        polls += 1;
    }
    until("farewell of all", async || rig.count("select count(*) from awa.workers").await == 0).await;
    until("closed connections", async || rig.count(CONNECTIONS).await == 0).await;
}

// PROC-06: nothing hangs and nothing panics when the runtime goes first.
#[test]
fn runtime_may_be_dropped_with_jobs_in_flight() {
    let observer = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let rig = observer.block_on(Rig::new());
    let observing = rig.database.pool();
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let running = runtime.block_on(async {
        let running = client.start().await.unwrap();
        rig.enqueue(probe("a")).await;
        soon("start", told.recv()).await.unwrap();
        running
    });
    drop(runtime);
    let ended = observer.block_on(async { tokio::time::timeout(Duration::from_secs(30), running.ended()).await });
    assert!(matches!(ended, Ok(Err(_))), "{ended:?}");
    drop(running);
    // Connections of the client's pool that were opened in its runtime have ended with it.
    observer.block_on(async {
        until("closed connections", async || {
            sqlx::query_scalar::<_, i64>(CONNECTIONS).fetch_one(&observing).await.expect(CONNECTIONS) == 0
        })
        .await;
        drop(rig);
    });
}
