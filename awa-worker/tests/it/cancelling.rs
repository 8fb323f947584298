//! STATE-06, STATE-09: a job that somebody ends while it runs. Its handler learns of it, and no other does.

use std::time::Duration;

use awa_storage::rescue::{RescueCursor, RescueLimits, rescue};
use awa_worker::{
    CancelReason, Client, ClientBuilder, JobArgs, JobContext, JobError, JobId, Outcome, QueueConfig, Running, Shutdown,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::log;
use crate::support::{Gate, PATIENCE, Probe, Rig, drain, events, probe, soon, until};

/// No heartbeat comes within any test.
const NEVER: Duration = Duration::from_secs(1000);

/// A client that hears of nothing by heartbeats.
fn deaf(rig: &Rig) -> ClientBuilder {
    rig.client().heartbeat_interval(NEVER).stale_after(NEVER * 3)
}

/// Starts a worker whose handlers wait until they are asked to stop. Each shows its context when it begins.
async fn waiting(builder: ClientBuilder) -> (Running, UnboundedReceiver<JobContext>) {
    let (tell, told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            tell.send(context.clone()).unwrap();
            context.cancelled().await;
            Ok::<Value, JobError>(json!("too late"))
        }
    };
    (builder.register(handler).build().unwrap().start().await.unwrap(), told)
}

/// Runs a job, ends it with a statement about `@`, and returns why its handler was asked to stop.
async fn ended_by(rig: &Rig, builder: ClientBuilder, statement: &str) -> Option<CancelReason> {
    let (running, mut told) = waiting(builder).await;
    let id = rig.enqueue(probe("a")).await;
    let context = soon("start", told.recv()).await.unwrap();
    let statement = statement.replace('@', &id.to_string());
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement.clone())).execute(&rig.pool).await.expect(&statement);
    soon("cancellation", context.cancelled()).await;
    let row: Option<Value> = sqlx::query_scalar("select to_jsonb(job) from awa.jobs as job where id = $1")
        .bind(id)
        .fetch_optional(&rig.pool)
        .await
        .unwrap();
    assert_eq!((drain(&running).await.returned, &context.cancel_reason().unwrap().is_gone()), (0, &true));
    let after: Option<Value> = sqlx::query_scalar("select to_jsonb(job) from awa.jobs as job where id = $1")
        .bind(id)
        .fetch_optional(&rig.pool)
        .await
        .unwrap();
    assert_eq!(row, after, "what the handler returned is discarded");
    context.cancel_reason()
}

const RESCUE: &str = "select awa.rescue(0, 1000, 3600, 0, 3600, 60)";

/// What somebody does to a job that runs, and why its handler is asked to stop.
const WAYS: [(&str, CancelReason); 5] = [
    ("select awa.cancel(@, 'enough')", CancelReason::Cancelled),
    ("select awa.delete_job(@)", CancelReason::Cancelled),
    ("update awa.jobs set state = 'cancelled' where id = @", CancelReason::Cancelled),
    ("delete from awa.jobs where id = @", CancelReason::Cancelled),
    (RESCUE, CancelReason::LeaseLost),
];

#[tokio::test]
async fn handler_learns_at_once_that_its_job_was_ended_and_why() {
    let rig = Rig::with_sessions().await;
    for (statement, reason) in WAYS {
        assert_eq!(ended_by(&rig, deaf(&rig), statement).await, Some(reason), "{statement}");
    }
}

#[tokio::test]
async fn without_listen_handler_learns_by_the_next_heartbeat_and_learns_why_too() {
    let rig = Rig::with_sessions().await;
    for (statement, reason) in WAYS {
        assert_eq!(ended_by(&rig, rig.client().without_listen(), statement).await, Some(reason), "{statement}");
    }
}

/// The heartbeat is not the only one to find out: so does a handler that asks for its progress to be stored.
#[tokio::test]
async fn flush_of_a_job_that_was_cancelled_says_so() {
    let rig = Rig::with_sessions().await;
    let (running, mut told) = waiting(deaf(&rig).without_listen()).await;
    let id = rig.enqueue(probe("a")).await;
    let context = soon("start", told.recv()).await.unwrap();
    sqlx::query("select awa.cancel($1)").bind(id).execute(&rig.pool).await.unwrap();
    context.progress().set(50, "half").unwrap();
    assert!(matches!(context.progress().flush().await, Err(awa_worker::Error::LeaseLost)));
    assert_eq!(context.cancel_reason(), Some(CancelReason::Cancelled));
    assert_eq!(drain(&running).await.left_to_rescue, 0);
    assert_eq!(rig.row(id).await.state, "cancelled");
}

/// Told by its lease, a cancellation never reaches the next attempt, nor does the word of somebody who made it up.
#[tokio::test]
async fn notification_stops_the_attempt_that_it_is_about_and_no_other() {
    let rig = Rig::with_sessions().await;
    let (running, mut told) = waiting(deaf(&rig)).await;
    let id = rig.enqueue(probe("a")).await;
    let first = soon("start", told.recv()).await.unwrap();
    let mut cancelling = rig.pool.begin().await.unwrap();
    sqlx::query("select awa.cancel($1), awa.retry($1)").bind(id).execute(&mut *cancelling).await.unwrap();
    cancelling.commit().await.unwrap();
    let second = soon("second start", told.recv()).await.unwrap();
    soon("cancellation", first.cancelled()).await;
    assert!(second.run_lease() > first.run_lease());
    let channel = format!("awa_{}", running.worker_id().get().simple());
    for lease in [first.run_lease(), second.run_lease()] {
        let payload = format!("{id} {lease} cancelled");
        sqlx::query("select pg_notify($1, $2)").bind(&channel).bind(payload).execute(&rig.pool).await.unwrap();
    }
    // Notifications are acted on in order, so by then the made-up ones have been.
    let other = rig.enqueue(probe("b")).await;
    let third = soon("third start", told.recv()).await.unwrap();
    sqlx::query("select awa.cancel($1)").bind(other).execute(&rig.pool).await.unwrap();
    soon("cancellation", third.cancelled()).await;
    assert!(!second.is_cancelled());
    soon("end", running.shutdown(Shutdown::Now)).await.unwrap();
}

// STATE-09
#[tokio::test]
async fn job_can_be_cancelled_while_its_worker_drains() {
    let rig = Rig::with_sessions().await;
    for builder in [deaf(&rig), rig.client().without_listen()] {
        let (running, mut told) = waiting(builder).await;
        let id = rig.enqueue(probe("a")).await;
        let context = soon("start", told.recv()).await.unwrap();
        let client = Client::builder(rig.pool.clone()).build().unwrap();
        let draining = async { running.shutdown(Shutdown::Drain { timeout: NEVER }).await.unwrap() };
        let cancelling = async {
            // The drain has begun: what comes now is not claimed any more.
            let gone = "select count(*) from pg_locks where locktype = 'advisory' and classid = 1096237385
                and mode = 'ExclusiveLock'
                and database = (select oid from pg_database where datname = current_database())";
            until("no gate", async || rig.count(gone).await == 0).await;
            let _ = client.cancel(JobId::<()>::new(id), None).await.unwrap();
        };
        let (report, ()) = soon("end", async { tokio::join!(draining, cancelling) }).await;
        assert_eq!((report.returned, report.left_to_rescue, report.unfinished.len()), (0, 0, 0));
        assert_eq!(context.cancel_reason(), Some(CancelReason::Cancelled));
        assert_eq!(rig.row(id).await.state, "cancelled");
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, JobArgs)]
#[job(kind = "returns_after_its_end")]
struct Late {}

/// Nothing went wrong, so nobody is alarmed, whether the handler had been told or not.
#[tokio::test]
async fn return_of_a_handler_whose_job_was_cancelled_is_no_error() {
    log::record();
    let rig = Rig::with_sessions().await;
    for (builder, is_told) in [(deaf(&rig), true), (deaf(&rig).without_listen(), false)] {
        let (tell, mut told) = events();
        let gate = Gate::new();
        let passed = gate.clone();
        let handler = move |_: Late, context: JobContext| {
            let (tell, gate) = (tell.clone(), passed.clone());
            async move {
                tell.send(context).unwrap();
                gate.passed().await;
                Err::<Outcome<()>, JobError>("interrupted".into())
            }
        };
        let running = builder.cancel_grace(NEVER).register(handler).build().unwrap().start().await.unwrap();
        let id = rig.enqueue(Late {}).await;
        let context = soon("start", told.recv()).await.unwrap();
        sqlx::query("select awa.cancel($1)").bind(id).execute(&rig.pool).await.unwrap();
        if is_told {
            soon("cancellation", context.cancelled()).await;
        }
        gate.open();
        drain(&running).await;
        assert_eq!(rig.row(id).await.errors, None);
    }
    let kind = "job.kind=returns_after_its_end";
    assert_eq!(log::lines(&["INFO", "what the handler returned is discarded", kind]).len(), 2);
    // That an attempt failed is said before anybody knows that it does not matter, where nobody was told.
    let alarms: Vec<_> = log::lines(&["WARN", kind]);
    assert!(alarms.len() == 1 && alarms[0].contains("an attempt failed"), "{alarms:?}");
    assert_eq!(log::lines(&["ERROR", kind]), [""; 0]);
}

#[derive(Debug, Clone, Serialize, Deserialize, JobArgs)]
#[job(kind = "ignores_its_cancellation")]
struct Stubborn {}

// Whoever does not listen is named, once, and does not let his process hold more jobs than it may.
#[tokio::test]
async fn handler_that_ignores_its_cancellation_is_named_and_keeps_its_slot() {
    log::record();
    let rig = Rig::with_sessions().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let passed = gate.clone();
    let handler = move |_: Stubborn, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<_, JobError>(())
        }
    };
    let builder = deaf(&rig)
        .queue("default", QueueConfig::new().max_workers(1))
        .queue("aside", QueueConfig::new())
        .register(async |_: Probe| Ok::<_, JobError>(Value::Null));
    let running = builder.register(handler).build().unwrap().start().await.unwrap();
    let id = rig.enqueue(Stubborn {}).await;
    soon("start", told.recv()).await.unwrap();
    sqlx::query("select awa.cancel($1)").bind(id).execute(&rig.pool).await.unwrap();
    let texts = ["WARN a handler goes on although it was asked to stop", "job.kind=ignores_its_cancellation"];
    let line = log::logged(&texts).await;
    for field in [format!("job.id={id} "), "reason=Cancelled".to_owned(), "asked_for=".to_owned()] {
        assert!(line.contains(&field), "{field} in {line}");
    }
    // The slot is still taken: a job of another queue that came later is run, and the next of this queue is not.
    let next = rig.enqueue(Stubborn {}).await;
    let aside = rig.enqueue(awa_worker::NewJob::new(&probe("a")).queue("aside")).await;
    rig.state(aside, "completed").await;
    assert_eq!(rig.row(next).await.state, "available");
    gate.open();
    rig.state(next, "completed").await;
    assert_eq!(log::lines(&texts).len(), 1);
    drain(&running).await;
}

#[derive(Debug, Clone, Serialize, Deserialize, JobArgs)]
#[job(kind = "blocks_its_thread")]
struct Blocking {}

// NOTIFY-04: whatever handlers do to the threads of the service, notifications are taken from the server, cancellation
// arrives, and the log says who it is.
#[test]
fn blocked_threads_delay_neither_cancellation_nor_notifications() {
    blocked_threads_delay_nothing(1, 2_000, 7_000);
}

/// Sends notifications, transaction after transaction: each time all are taken from the server, and no listener holds it up.
async fn all_are_taken(rig: &Rig, transactions: u32, notifications: i32, bytes: i32) {
    let pinned = "select count(*) from pg_stat_activity where application_name like 'awa %'
        and datname = current_database() and (backend_xmin is not null or wait_event = 'ClientWrite')";
    for _ in 0..transactions {
        sqlx::query("select pg_notify('awa', repeat('x', $1) || number) from generate_series(1, $2) as number")
            .bind(bytes)
            .bind(notifications)
            .execute(&rig.pool)
            .await
            .unwrap();
        until("all is read", async || rig.count("select (pg_notification_queue_usage() = 0)::int::bigint").await == 1)
            .await;
        assert_eq!(rig.count(pinned).await, 0);
    }
}

/// Meanwhile so many transactions send notifications: how many each, and of how many bytes.
fn blocked_threads_delay_nothing(transactions: u32, notifications: i32, bytes: i32) {
    log::record();
    let before = log::lines(&["a handler blocks its thread", "kind=blocks_its_thread"]).len();
    let observer = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rig = observer.block_on(Rig::with_sessions());
    for threads in [0, 2] {
        let mut builder = match threads {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = builder.worker_threads(threads.max(1)).enable_all().build().unwrap();
        let jobs = threads.max(1);
        let pool = rig.database.options();
        for _ in 0..jobs {
            observer.block_on(rig.enqueue(Blocking {}));
        }
        let (tell, told) = std::sync::mpsc::channel();
        let service = std::thread::spawn(move || {
            runtime.block_on(async move {
                let (ending, mut ended) = events();
                let handler = move |_: Blocking, context: JobContext| {
                    let (tell, ending) = (tell.clone(), ending.clone());
                    async move {
                        tell.send(context.job_id()).unwrap();
                        while !context.is_cancelled() {
                            std::thread::yield_now();
                        }
                        ending.send(()).unwrap();
                        Ok::<_, JobError>(())
                    }
                };
                let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect_lazy_with(pool);
                let client =
                    Client::builder(pool).heartbeat_interval(NEVER).stale_after(NEVER * 3).without_maintenance();
                let running = client.register(handler).build().unwrap().start().await.unwrap();
                for _ in 0..jobs {
                    soon("end of a handler", ended.recv()).await.unwrap();
                }
                soon("end", running.shutdown(Shutdown::Drain { timeout: PATIENCE })).await.unwrap()
            })
        });
        observer.block_on(async {
            let ids: Vec<JobId> = (0..jobs).map(|_| told.recv_timeout(PATIENCE).unwrap()).collect();
            all_are_taken(&rig, transactions, notifications, bytes).await;
            for id in &ids {
                log::logged(&["WARN a handler blocks its thread", &format!("job.id={id} "), "kind=blocks_its_thread"])
                    .await;
            }
            let client = Client::builder(rig.pool.clone()).build().unwrap();
            client.cancel_many(&ids, None).await.unwrap();
        });
        service.join().unwrap();
    }
    let lines = log::lines(&["a handler blocks its thread", "kind=blocks_its_thread"]).len();
    assert_eq!(lines - before, 3, "once each");
    drop(rig);
}

/// An attempt that timed out, or was told that the process ends, hears that its job was cancelled too: that says more.
#[tokio::test]
async fn reason_that_the_lease_is_gone_replaces_a_weaker_one() {
    let rig = Rig::with_sessions().await;
    let (tell, mut told) = events();
    let gate = Gate::new();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let running = deaf(&rig).cancel_grace(NEVER).register(handler).build().unwrap().start().await.unwrap();
    let id = rig.enqueue(awa_worker::NewJob::new(&probe("a")).timeout(Duration::from_millis(1))).await;
    let context = soon("start", told.recv()).await.unwrap();
    soon("timeout", context.cancelled()).await;
    assert_eq!(context.cancel_reason(), Some(CancelReason::TimedOut));
    sqlx::query("select awa.cancel($1)").bind(id).execute(&rig.pool).await.unwrap();
    until("cancellation", async || context.cancel_reason() == Some(CancelReason::Cancelled)).await;
    let silence = RescueLimits {
        worker_silence: NEVER,
        attempt_silence: Duration::ZERO,
        deadline_grace: NEVER,
        jobs_max: 10,
        budget: PATIENCE,
    };
    assert_eq!(rescue(&rig.pool, &silence, RescueCursor::default()).await.unwrap().jobs, []);
    gate.open();
    drain(&running).await;
    assert_eq!(rig.row(id).await.state, "cancelled");
}

mod long {
    #[test]
    fn blocked_threads_delay_neither_cancellation_nor_a_million_notifications() {
        super::blocked_threads_delay_nothing(100, 10_000, 200);
    }
}
