//! Connections that die without a word: statements of each loop whose answer never comes, and a connection that delivers
//! nothing any more. Each loop has a limit of its own and goes on with a new connection, and none waits for another.

use std::time::Duration;

use awa_worker::{JobContext, JobError, Running};
use serde_json::{Value, json};
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::log;
use crate::proxy::{Flow, Proxy};
use crate::support::{Gate, Probe, Rig, drain, soon, until};
use crate::worker::{CLAIM, GATES, JOBS, client, enqueue, in_state};

const HOUR: Duration = Duration::from_secs(3600);
const QUICK: Duration = Duration::from_millis(50);

/// A worker behind a proxy. Its handlers wait at a gate.
struct Scene {
    rig: Rig,
    proxy: Proxy,
    gate: Gate,
    running: Running,
}

impl Scene {
    async fn new(slots: usize, poll: Duration) -> Self {
        log::record();
        let rig = Rig::new().await;
        let proxy = Proxy::before(&rig.database.options()).await;
        let through = PgPool::connect_with(proxy.options(rig.database.options())).await.unwrap();
        let gate = Gate::new();
        let passed = gate.clone();
        let handler = move |job: Probe, _: JobContext| {
            let gate = passed.clone();
            async move {
                gate.passed().await;
                Ok::<Value, JobError>(json!(job.name))
            }
        };
        let client = client(&through, slots).stale_after(Duration::from_secs(10)).poll_interval(poll);
        let client = client.register(handler).build().unwrap();
        let running = client.start().await.unwrap();
        Self { rig, proxy, gate, running }
    }

    /// Locks a table, so that statements that write to it wait.
    async fn hold(&self, lock: &'static str) -> PgConnection {
        let mut holder = self.rig.database.connect().await;
        sqlx::raw_sql("begin").execute(&mut holder).await.unwrap();
        sqlx::raw_sql(lock).execute(&mut holder).await.unwrap();
        holder
    }

    /// Lets a statement that waits for the lock take effect, and its answer get lost: no such connection says anything more.
    async fn lose_answer(&self, text: &str, holder: PgConnection) {
        let asked = "select client_port from pg_stat_activity where datname = current_database()
                        and wait_event_type = 'Lock' and query like '%' || $1 || '%'";
        let waiting = async {
            loop {
                let ports: Vec<i32> = sqlx::query_scalar(asked).bind(text).fetch_all(&self.rig.pool).await.unwrap();
                if !ports.is_empty() {
                    return ports;
                }
            }
        };
        let ports = soon(text, waiting).await;
        for port in ports {
            self.proxy.set(u16::try_from(port).unwrap(), Flow::Stalled);
        }
        holder.close().await.unwrap();
    }

    async fn running(&self, jobs: usize) {
        enqueue(&self.rig.pool, jobs).await;
        in_state(&self.rig.pool, "running", jobs).await;
    }

    /// Ends the test: all jobs there are have completed, and so many at their first attempt.
    async fn completed(self, jobs: usize, at_first: i64) {
        in_state(&self.rig.pool, "completed", jobs).await;
        assert_eq!(self.rig.count(JOBS).await, jobs as i64);
        assert_eq!(self.rig.count("select count(*) from awa.jobs where attempt = 1").await, at_first);
        drain(&self.running).await;
    }
}

const JOB_TABLES: &str = "lock table awa.jobs_hot in share row exclusive mode";

// CONN-09. The claim has committed and nobody knows: its jobs are rescued, since nothing beats for them.
#[tokio::test]
async fn claim_without_an_answer_is_given_up_and_its_jobs_are_rescued() {
    let scene = Scene::new(10, QUICK).await;
    scene.gate.open();
    until("sleep", async || scene.rig.count(GATES).await == 1).await;
    // Claims alone write there.
    let holder = scene.hold("lock table awa.active_claims in share row exclusive mode").await;
    enqueue(&scene.rig.pool, 10).await;
    scene.lose_answer(CLAIM, holder).await;
    enqueue(&scene.rig.pool, 10).await;
    log::logged(&["jobs could not be claimed: trying again", "timed out"]).await;
    scene.completed(20, 10).await;
}

// CONN-09. The outcome is stored, and nobody knows: it is sent again, and found stored. The only slot is free after that.
#[tokio::test]
async fn outcome_without_an_answer_is_sent_again_and_counts_once() {
    let scene = Scene::new(1, QUICK).await;
    scene.running(1).await;
    let holder = scene.hold(JOB_TABLES).await;
    scene.gate.open();
    scene.lose_answer("awa.complete(", holder).await;
    enqueue(&scene.rig.pool, 1).await;
    log::logged(&["outcomes could not be written: trying again", "timed out"]).await;
    scene.completed(2, 2).await;
}

// CONN-09. The next beat is in time: nobody is taken for dead.
#[tokio::test]
async fn heartbeat_without_an_answer_is_followed_by_others() {
    let scene = Scene::new(10, QUICK).await;
    scene.running(3).await;
    let holder = scene.hold(JOB_TABLES).await;
    scene.lose_answer("awa.beat(", holder).await;
    log::logged(&["heartbeat failed: trying again soon", "timed out"]).await;
    let fresh = "select count(*) from awa.jobs where heartbeat_at > clock_timestamp() - interval '1 second'";
    until("beats", async || scene.rig.count(fresh).await == 3).await;
    scene.gate.open();
    scene.completed(3, 3).await;
}

// CONN-02, CONN-09. Its session lives on at the server, gate and all; the next one is told of work all the same.
#[tokio::test]
async fn connection_that_delivers_nothing_any_more_is_noticed_and_replaced() {
    let scene = Scene::new(10, HOUR).await;
    scene.gate.open();
    until("sleep", async || scene.rig.count(GATES).await == 1).await;
    let port = "select client_port::bigint from pg_stat_activity join pg_locks using (pid)
                 where locktype = 'advisory' and classid = 1096237385 and pg_locks.mode = 'ExclusiveLock'
                   and datname = current_database()";
    let port = scene.rig.count(port).await;
    scene.proxy.set(u16::try_from(port).unwrap(), Flow::Stalled);
    for jobs in 1..=3 {
        enqueue(&scene.rig.pool, 1).await;
        in_state(&scene.rig.pool, "completed", jobs).await;
    }
    log::logged(&["the connection that listens is lost"]).await;
    scene.completed(3, 3).await;
}

// Every loop at once, maintenance included, with the old connections dead for good.
#[tokio::test]
async fn loss_of_all_connections_without_a_word_is_overcome_with_new_ones() {
    let scene = Scene::new(10, QUICK).await;
    scene.running(5).await;
    scene.proxy.set_all(Flow::Stalled);
    enqueue(&scene.rig.pool, 20).await;
    scene.gate.open();
    scene.completed(25, 25).await;
}

/// A network that carries nothing until `stall` is over, and then what was sent meanwhile.
async fn carry_nothing(stall: impl AsyncFnOnce()) {
    let scene = Scene::new(10, QUICK).await;
    scene.running(5).await;
    scene.proxy.admit(Flow::Stalled);
    scene.proxy.set_all(Flow::Stalled);
    enqueue(&scene.rig.pool, 20).await;
    scene.gate.open();
    stall().await;
    scene.proxy.admit(Flow::Free);
    scene.proxy.set_all(Flow::Free);
    in_state(&scene.rig.pool, "completed", 25).await;
    assert_eq!(scene.rig.count(JOBS).await, 25);
    drain(&scene.running).await;
}

#[tokio::test]
async fn worker_goes_on_when_the_network_carries_again() {
    carry_nothing(async || drop(log::logged(&["heartbeat failed: trying again soon"]).await)).await;
}

mod long {
    use super::{Duration, carry_nothing};

    // CONN-09
    #[tokio::test]
    async fn worker_goes_on_when_the_network_carries_again_after_two_minutes() {
        let minutes = tokio::time::timeout(Duration::from_secs(120), std::future::pending::<()>());
        carry_nothing(async || drop(minutes.await)).await;
    }
}
