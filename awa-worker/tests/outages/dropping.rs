//! I11: a future of Awa's that is dropped, at whichever await, leaves no transaction open, no connection lost, no lock and no
//! half of what it was to write. Each is dropped before its first poll, after the first, after the second, and so on until
//! it completes.

mod answers;
mod attempts;
mod completing;
mod drains;
mod watching;

use std::future::Future;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use awa_storage::testing::TestDatabase;
use awa_worker::{Client, Inserted, JobContext, JobEdit, JobError, JobId, Middleware, NewJob, Shutdown, Unique};
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::support::{PATIENCE, Probe, Rig, drain, events, probe, soon, until};
use crate::worker::{CONNECTIONS, answer, client, count};

/// Connections of the pool that the calls use.
const POOL: u32 = 5;

/// Polls a future so many times, as often as it asks to be polled, and drops it. Its output, if it was done by then.
async fn polled<T>(times: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// How often a call is dropped at each of its awaits. At first there are connections to be opened and statements to be
/// prepared on each, and what it is about is sent later than when it is called again.
const ROUNDS: usize = 1 + POOL as usize;

/// Drops a call after 0, 1, 2 … polls, until it completes, and again from the start. Each is told how many there were before
/// it. Returns how many there were.
async fn dropped<T, F: Future<Output = T>>(what: &str, mut call: impl FnMut(usize) -> F) -> usize {
    let mut calls = 0;
    let rounds = async {
        for _ in 0..ROUNDS {
            for times in 0.. {
                calls += 1;
                if polled(times, call(calls - 1)).await.is_some() {
                    break;
                }
            }
        }
    };
    soon(what, rounds).await;
    // Each has to wait for something: one poll may do where the answer is quicker than this program, but not every time.
    assert!(calls > 2 * ROUNDS, "{what}: never dropped while it waited");
    calls
}

/// A middleware that passes on what it is given: what it awaits is dropped with the call.
struct PassOn;

impl Middleware for PassOn {}

struct Scene {
    rig: Rig,
    /// What calls go through; the rig looks through its own.
    pool: PgPool,
    client: Client,
}

impl Scene {
    async fn new() -> Self {
        let rig = Rig::new().await;
        let options = PgPoolOptions::new().max_connections(POOL).acquire_timeout(PATIENCE);
        let pool = options.connect_lazy_with(rig.database.options().application_name("dropped"));
        let client = Client::builder(pool.clone()).middleware(PassOn).build().unwrap();
        Self { rig, pool, client }
    }

    /// Judges what is left.
    async fn judge(&self, what: &str) {
        let open = "select count(*) from pg_stat_activity where application_name = 'dropped'
                       and datname = current_database() and (state <> 'idle' or xact_start is not null)";
        until(&format!("no open transaction after {what}"), async || self.rig.count(open).await == 0).await;
        let locks = "select count(*) from pg_locks join pg_stat_activity using (pid)
                      where application_name = 'dropped' and datname = current_database()";
        until(&format!("no lock after {what}"), async || self.rig.count(locks).await == 0).await;
        let all = futures_util::future::join_all((0..POOL).map(|_| self.pool.acquire()));
        let all = soon(&format!("every connection of the pool after {what}"), all).await;
        assert!(all.iter().all(Result::is_ok), "{what}");
    }

    async fn jobs(&self, sql: &'static str) -> i64 {
        self.rig.count(sql).await
    }
}

fn unique(name: usize) -> NewJob<Probe> {
    NewJob::new(&probe(&format!("unique {name}"))).unique(Unique::until_finished())
}

const CLAIMS_AND_JOBS_DISAGREE: &str = "select count(*) from awa.job_unique_claims as claim
    full join (select id from awa.jobs where unique_key is not null) as job on job.id = claim.job_id
    where job.id is null or claim.job_id is null";

// CONN-11
#[tokio::test]
async fn dropped_enqueueing_leaves_a_whole_job_or_none() {
    let scene = Scene::new().await;
    dropped("enqueue", |call| scene.client.enqueue(unique(call))).await;
    scene.judge("enqueue").await;
    dropped("enqueue_many", |call| {
        let jobs: Vec<_> = (0..3).map(|_| NewJob::new(&probe(&format!("many {call}")))).collect();
        scene.client.enqueue_many(jobs)
    })
    .await;
    scene.judge("enqueue_many").await;
    let parts = "select count(*) from (select 1 from awa.jobs where args ->> 'name' like 'many %'
                                        group by args ->> 'name' having count(*) <> 3) as parts";
    assert_eq!(scene.jobs(parts).await, 0);
    dropped("free enqueue", |call| awa_worker::enqueue(&scene.pool, unique(1000 + call))).await;
    dropped("find_unique", |call| scene.client.find_unique(unique(call))).await;
    dropped("cancel_unique", |call| scene.client.cancel_unique(unique(call), Some("dropped"))).await;
    scene.judge("the calls about unique keys").await;
    assert_eq!(scene.jobs(CLAIMS_AND_JOBS_DISAGREE).await, scene.jobs(CANCELLED).await);
}

/// Jobs that were called off keep their key in the row and hold it no longer.
const CANCELLED: &str = "select count(*) from awa.jobs where unique_key is not null and state = 'cancelled'";

// CONN-11: the transaction is the caller's, and stays usable.
#[tokio::test]
async fn dropped_enqueueing_leaves_the_transaction_of_the_caller_to_the_caller() {
    let scene = Scene::new().await;
    let (mut kept, mut thrown) = (0, 0);
    for times in 0.. {
        let mut tx = scene.pool.begin().await.unwrap();
        let done = polled(times, scene.client.enqueue_in(&mut *tx, probe("in"))).await.is_some();
        let inside: i64 = sqlx::query_scalar("select count(*) from awa.jobs").fetch_one(&mut *tx).await.unwrap();
        if times % 2 == 0 {
            tx.commit().await.unwrap();
            kept = inside;
        } else {
            tx.rollback().await.unwrap();
            thrown += 1;
        }
        assert_eq!(scene.jobs("select count(*) from awa.jobs").await, kept);
        if done {
            break;
        }
    }
    assert!(thrown > 0);
    scene.judge("enqueue_in").await;
}

// CONN-11: what enqueue_copy promises for a connection that it was dropped on.
#[tokio::test]
async fn dropped_copy_leaves_all_jobs_or_none() {
    let scene = Scene::new().await;
    dropped("enqueue_copy", async |call| {
        let mut connection = scene.pool.acquire().await.unwrap();
        let jobs: Vec<_> = (0..3).map(|_| probe(&format!("copy {call}"))).collect();
        scene.client.enqueue_copy(&mut connection, jobs).await.map(|inserted| inserted.len())
    })
    .await;
    scene.judge("enqueue_copy").await;
    let parts = "select count(*) from (select 1 from awa.jobs group by args ->> 'name' having count(*) <> 3) as parts";
    assert_eq!(scene.jobs(parts).await, 0);
}

// CONN-11
#[tokio::test]
async fn dropped_operation_is_done_or_not_done() {
    let scene = Scene::new().await;
    let client = &scene.client;
    let jobs: Vec<JobId> = client
        .enqueue_many((0..4).map(|number| NewJob::new(&probe(&number.to_string())).run_in(PATIENCE)))
        .await
        .unwrap()
        .into_iter()
        .map(|one: Inserted<Probe>| JobId::new(one.id().get()))
        .collect();
    let one = jobs[0];
    dropped("cancel", |_| client.cancel(one, Some("dropped"))).await;
    dropped("retry", |_| client.retry(one)).await;
    dropped("cancel_many", |_| client.cancel_many(&jobs, None)).await;
    dropped("retry_many", |_| client.retry_many(&jobs)).await;
    dropped("edit", |_| client.edit(one, JobEdit::new().run_in(PATIENCE))).await;
    dropped("run_now", |_| client.run_now(one)).await;
    dropped("run_now_many", |_| client.run_now_many(&jobs)).await;
    dropped("job_status", |_| client.job_status(one)).await;
    dropped("pause_queue", |_| client.pause_queue("default")).await;
    dropped("resume_queue", |_| client.resume_queue("default")).await;
    dropped("delete_job", |_| client.delete_job(one)).await;
    dropped("delete_jobs", |_| client.delete_jobs(&jobs[1..])).await;
    scene.judge("operations").await;
    assert_eq!(scene.jobs("select count(*) from awa.jobs").await, 0);
}

// CONN-11: the migration goes on by itself, or was never begun.
#[tokio::test]
async fn dropped_migration_is_done_by_the_next_one() {
    let database = TestDatabase::empty().await;
    let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE).connect_lazy_with(database.options());
    dropped("migrate", |_| awa_worker::migrate(&pool)).await;
    awa_worker::enqueue(&pool, probe("a")).await.map(drop).unwrap();
    let locks = "select count(*) from pg_locks where locktype = 'advisory'
                    and database = (select oid from pg_database where datname = current_database())";
    assert_eq!(count(&database.pool(), locks).await, Some(0));
}

/// Waits until no worker and no connection of one is left.
async fn gone(rig: &Rig) {
    until("farewell", async || rig.count("select count(*) from awa.workers").await == 0).await;
    until("closed connections", async || rig.count(CONNECTIONS).await == 0).await;
}

// CONN-11
#[tokio::test]
async fn dropped_start_shutdown_and_run_leave_no_worker_behind() {
    let scene = Scene::new().await;
    let client = client(&scene.pool, 10).register(answer).build().unwrap();
    dropped("start", |_| client.start()).await;
    gone(&scene.rig).await;
    dropped("shutdown", async |_| {
        let running = client.start().await.unwrap();
        running.shutdown(Shutdown::Drain { timeout: PATIENCE }).await
    })
    .await;
    gone(&scene.rig).await;
    dropped("run_until", |_| client.run_until(std::future::ready(()))).await;
    gone(&scene.rig).await;
    scene.judge("workers").await;
}

// CONN-11: a shutdown that nobody waits for any more goes on.
#[tokio::test]
async fn dropped_wait_for_the_end_takes_nothing_back() {
    let rig = Rig::new().await;
    let running = client(&rig.pool, 10).register(answer).build().unwrap().start().await.unwrap();
    assert!(polled(1, running.ended()).await.is_none());
    assert!(polled(1, running.shutdown(Shutdown::Drain { timeout: PATIENCE })).await.is_none());
    assert!(polled(1, running.ended()).await.is_none());
    gone(&rig).await;
    drain(&running).await;
}

// CONN-11: what a handler asks for.
#[tokio::test]
async fn dropped_flush_stores_the_progress_or_leaves_it_to_the_next() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            for times in 0.. {
                context.set_checkpoint("times", &times)?;
                let flushed = polled(times, context.progress().flush()).await;
                if let Some(flushed) = flushed {
                    flushed?;
                    tell.send(times).unwrap();
                    break;
                }
            }
            Err::<Value, JobError>(JobError::fatal("the end"))
        }
    };
    let client = client(&rig.pool, 10).heartbeat_interval(Duration::from_secs(1)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let times = soon("a flush", told.recv()).await.unwrap();
    let row = rig.state(id, "failed").await;
    assert_eq!(row.progress.unwrap()["metadata"]["times"], json!(times));
    assert!(times > 1);
    drain(&running).await;
    gone(&rig).await;
}

/// So many calls of all sorts, each given up after up to 5 ms, with a pool of five.
async fn given_up(calls: usize) {
    let scene = Scene::new().await;
    let client = &scene.client;
    let id = client.enqueue(NewJob::new(&probe("kept")).run_in(PATIENCE)).await.unwrap().id();
    // Connections that are there already, so that the time goes into statements.
    drop(futures_util::future::join_all((0..POOL).map(|_| scene.pool.acquire())).await);
    let mut done = 0;
    for call in 0..calls {
        // Spread over the range without any two alike in a row.
        let patience = Duration::from_micros((call as u64 * 619) % 5000);
        let work = async {
            match call % 6 {
                0 => client.enqueue(unique(call)).await.map(drop),
                1 => client.enqueue_many([probe("many"), probe("many"), probe("many")]).await.map(drop),
                2 => client.job_status(id).await.map(drop),
                3 => client.edit(id, JobEdit::new().run_in(PATIENCE)).await.map(drop),
                4 => client.cancel_unique(unique(call - 4), None).await.map(drop),
                _ => awa_worker::migrate(&scene.pool).await,
            }
        };
        // Some are waited for, so that there is something to be undone by others.
        let patience = if call % 7 == 6 { PATIENCE } else { patience };
        if let Ok(answer) = tokio::time::timeout(patience, work).await {
            answer.unwrap();
            done += 1;
        }
    }
    assert!(done > 0 && done < calls, "{done} of {calls} were done: neither tells anything");
    scene.judge("calls that were given up").await;
    let parts = "select count(*) % 3 from awa.jobs where args ->> 'name' = 'many'";
    assert_eq!(scene.jobs(parts).await, 0);
    assert_eq!(scene.jobs(CLAIMS_AND_JOBS_DISAGREE).await, scene.jobs(CANCELLED).await);
}

// CONN-11
#[tokio::test]
async fn calls_that_are_given_up_after_any_time_leave_nothing_behind() {
    given_up(300).await;
}

// CONN-11: nothing is left to tidy up after the runtime that did it is gone.
#[test]
fn runtime_that_is_dropped_right_after_a_call_was_given_up_leaves_nothing_behind() {
    let observer = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rig = observer.block_on(Rig::new());
    for call in 0..20 {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let options = rig.database.options().application_name("dropped");
            let client = Client::builder(PgPoolOptions::new().connect_lazy_with(options)).build().unwrap();
            let _ = tokio::time::timeout(Duration::from_millis(call), client.enqueue(probe("a"))).await;
        });
    }
    observer.block_on(async {
        let left =
            "select count(*) from pg_stat_activity where application_name = 'dropped' and datname = current_database()";
        until("closed connections", async || rig.count(left).await == 0).await;
        assert_eq!(rig.count("select count(*) from awa.jobs where state <> 'available'").await, 0);
        drop(rig);
    });
}

mod long {
    use super::given_up;

    // CONN-11
    #[tokio::test]
    async fn five_thousand_calls_that_are_given_up_leave_nothing_behind() {
        given_up(5000).await;
    }
}
