//! A network that carries nothing while a worker drains: the drain ends within the times that it names, says what it leaves,
//! and whoever works on from there loses nothing and repeats nothing that is stored.

use std::time::{Duration, Instant};

use awa_worker::{ClientBuilder, JobError, Running, Shutdown, ShutdownReport, UnfinishedEnd};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::proxy::{Flow, Proxy};
use crate::support::{Gate, Probe, Rig, drain, soon, until};
use crate::worker::{JOBS, answer, client, count, enqueue, in_state};

/// Jobs that run when the drain begins, and jobs that wait.
const RUNNING: usize = 5;
const WAITING: usize = 5;

/// How long handlers may go on.
const TIMEOUT: Duration = Duration::from_secs(1);

/// How long the end may take at most, by the times that the shutdown names: five seconds for what is under way while handlers
/// end, ten for outcomes, one to give up, two and five to close connections. And something for a busy machine.
const END_MAX: Duration = Duration::from_secs(5 + 10 + 1 + 2 + 5 + 5);

/// A worker behind a proxy, with handlers that wait at a gate.
struct Scene {
    rig: Rig,
    proxy: Proxy,
    gate: Gate,
    running: Running,
}

impl Scene {
    async fn new() -> Self {
        let rig = Rig::new().await;
        let proxy = Proxy::before(&rig.database.options()).await;
        let through = PgPool::connect_with(proxy.options(rig.database.options())).await.unwrap();
        let gate = Gate::new();
        let passed = gate.clone();
        let handler = move |job: Probe| {
            let gate = passed.clone();
            async move {
                gate.passed().await;
                Ok::<Value, JobError>(json!(job.name))
            }
        };
        let running = patient(&through).register(handler).build().unwrap().start().await.unwrap();
        enqueue(&rig.pool, RUNNING).await;
        in_state(&rig.pool, "running", RUNNING).await;
        enqueue(&rig.pool, WAITING).await;
        Self { rig, proxy, gate, running }
    }

    fn stall(&self, flow: Flow) {
        self.proxy.admit(flow);
        self.proxy.set_all(flow);
    }

    /// Drains while the network is like this, which has a part in it by then, and lets handlers end or not.
    async fn drained(&self, flow: Flow, handlers_end: bool) -> ShutdownReport {
        let begun = Instant::now();
        let draining = self.running.shutdown(Shutdown::Drain { timeout: TIMEOUT });
        let meanwhile = async {
            // The worker has heard of it by then.
            self.rig.count(JOBS).await;
            self.stall(flow);
            if handlers_end {
                self.gate.open();
            }
        };
        let (report, ()) = soon("the end", async { tokio::join!(draining, meanwhile) }).await;
        let report = report.expect("an orderly end");
        let took = begun.elapsed();
        assert!(took < END_MAX, "{flow:?}: {took:?}");
        report
    }

    /// Has another worker go on, beside the network. So many jobs are completed at their first attempt.
    async fn completed(&self, at_first: usize) {
        let running = patient(&self.rig.pool).register(answer).build().unwrap().start().await.unwrap();
        in_state(&self.rig.pool, "completed", RUNNING + WAITING).await;
        drain(&running).await;
        assert_eq!(self.rig.count(JOBS).await, (RUNNING + WAITING) as i64);
        assert_eq!(self.rig.count("select count(*) from awa.jobs where attempt = 1").await, at_first as i64);
    }
}

/// Takes nobody for dead during these tests but those that are.
fn patient(pool: &PgPool) -> ClientBuilder {
    client(pool, RUNNING).stale_after(Duration::from_secs(4))
}

fn left_to_rescue(report: &ShutdownReport) -> usize {
    let left = |end: UnfinishedEnd| report.unfinished.iter().filter(|job| job.end == end).count();
    assert_eq!(
        (report.returned, report.left_to_rescue),
        (left(UnfinishedEnd::Returned), left(UnfinishedEnd::LeftToRescue))
    );
    report.left_to_rescue
}

// CONN-09
#[tokio::test]
async fn drain_with_a_stalled_network_ends_in_time_and_leaves_its_outcomes_to_rescue() {
    let scene = Scene::new().await;
    let report = scene.drained(Flow::Stalled, true).await;
    assert_eq!((report.returned, left_to_rescue(&report)), (0, RUNNING));
    scene.completed(WAITING).await;
}

/// Has completions take their time, until somebody writes into `public.go`: longer than they would wait for a lock.
const SLOW: &str = "
    create table public.go (); grant all on public.go to public;
    create function public.wait() returns trigger language plpgsql as $$
    begin
        while not exists (select from public.go) loop perform pg_sleep(0.01); end loop;
        return null;
    end $$;
    create trigger wait after update on awa.jobs_hot for each row when (new.state = 'completed')
        execute function public.wait()";

/// Completions that the server is at.
const COMPLETING: &str = "select count(*) from pg_stat_activity where datname = current_database()
    and wait_event = 'PgSleep' and query like '%awa.complete(%'";

// CONN-09: the outcomes are stored, and nobody hears of it.
#[tokio::test]
async fn drain_that_hears_no_answer_ends_in_time_and_what_it_stored_is_not_repeated() {
    let scene = Scene::new().await;
    scene.rig.execute(SLOW).await;
    scene.gate.open();
    until("outcomes on their way", async || scene.rig.count(COMPLETING).await >= 1).await;
    let report = scene.drained(Flow::Stalled, true).await;
    scene.rig.execute("insert into public.go default values").await;
    in_state(&scene.rig.pool, "completed", RUNNING).await;
    assert_eq!((report.returned, left_to_rescue(&report)), (0, RUNNING));
    scene.completed(RUNNING + WAITING).await;
}

// CONN-09: handlers that go on, whose jobs cannot be given back.
#[tokio::test]
async fn drain_with_a_stalled_network_ends_in_time_although_handlers_do_not() {
    let scene = Scene::new().await;
    let report = scene.drained(Flow::Stalled, false).await;
    assert_eq!((report.returned, left_to_rescue(&report)), (0, RUNNING));
    scene.completed(WAITING).await;
}

/// Outcomes that have reached the server, where they wait for a lock.
const SETTLING: &str = "select count(*) from pg_stat_activity where datname = current_database()
    and wait_event_type = 'Lock' and query like '%awa.complete(%'";

// CONN-09: before the time for outcomes is over.
#[tokio::test]
async fn drain_whose_network_carries_again_writes_everything_and_leaves_nothing() {
    let scene = Scene::new().await;
    let draining = async {
        let timeout = Duration::from_secs(3600);
        scene.running.shutdown(Shutdown::Drain { timeout }).await.expect("an orderly end")
    };
    let meanwhile = async {
        // Outcomes are on their way when the line goes dead, and new lines are no better.
        let mut holder = scene.rig.pool.begin().await.unwrap();
        let lock = "lock table awa.jobs_hot in share row exclusive mode";
        sqlx::raw_sql(lock).execute(&mut *holder).await.unwrap();
        scene.gate.open();
        until("outcomes on their way", async || count(&scene.rig.pool, SETTLING).await >= Some(1)).await;
        scene.proxy.set_all(Flow::Stalled);
        scene.proxy.admit(Flow::Cut);
        holder.rollback().await.unwrap();
        // By then somebody has given up a line and asked for another.
        scene.proxy.turned_away(3).await;
        scene.stall(Flow::Free);
    };
    let (report, ()) = soon("the end", async { tokio::join!(draining, meanwhile) }).await;
    assert_eq!(report, ShutdownReport::default());
    let settled = "select count(*) from awa.jobs where state = 'completed' and attempt = 1";
    assert_eq!(scene.rig.count(settled).await, RUNNING as i64);
    assert_eq!(scene.rig.count("select count(*) from awa.workers").await, 0, "it took its leave");
    scene.completed(RUNNING + WAITING).await;
}
