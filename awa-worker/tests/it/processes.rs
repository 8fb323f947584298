//! Workers as processes of their own, killed and stopped by signals.
//!
//! The children are this test program again, told by the environment to be one.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use awa_worker::{Answered, CallbackId, Client, JobContext, JobError, JobId, JobState, NewJob, Outcome, QueueConfig};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::leases::rescue_all;
use crate::support::{PATIENCE, Probe, Rig, drain, probe, soon, until};

/// What the child does with its jobs: the name of a variable, and its values.
pub(crate) const MODE: &str = "AWA_TEST_CHILD";
const HANG: &str = "hang";
const FINISH: &str = "finish";
const LISTEN: &str = "listen";

/// How many jobs a child holds at once.
const CHILD_WORKERS: usize = 100;

pub(crate) const URL: &str = "AWA_TEST_CHILD_DATABASE_URL";

/// A child that dies with this value, so that a failed test leaves none behind.
pub(crate) struct Process(Child);

impl Process {
    fn start(rig: &Rig, mode: &str) -> Self {
        Self::start_as("processes::child_works_when_told_to", rig, mode)
    }

    /// Starts a child whose body is this test.
    pub(crate) fn start_as(body: &str, rig: &Rig, mode: &str) -> Self {
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", body, "--nocapture"])
            .env(MODE, mode)
            .env(URL, rig.database.url())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.expect("this program can be started"))
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([name, &self.0.id().to_string()]).status();
        assert!(sent.expect("a kill command").success(), "{name}");
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    pub(crate) async fn ended(mut self) -> bool {
        let id = self.0.id().to_string();
        let waiting = tokio::task::spawn_blocking(move || self.0.wait().unwrap().success());
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(success) => success.unwrap(),
            Err(_) => {
                // Otherwise this test program would wait for it as well.
                let _ = Command::new("kill").args(["-KILL", &id]).status();
                panic!("process {id} does not end");
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Gone already, if the test went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a claim of its own: the body of the child processes.
#[test]
fn child_works_when_told_to() {
    let (Ok(mode), Ok(url)) = (env::var(MODE), env::var(URL)) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let pool = PgPool::connect(&url).await.unwrap();
        // One that is asked to listen is to keep its job, however busy the machine is.
        let stale_after = if mode == LISTEN { PATIENCE } else { Duration::from_secs(2) };
        let builder = Client::builder(pool.clone())
            .queue("default", QueueConfig::new().max_workers(CHILD_WORKERS))
            .heartbeat_interval(Duration::from_millis(250))
            .stale_after(stale_after)
            .drain_timeout(PATIENCE * 10);
        let builder = if mode == HANG { builder.without_maintenance() } else { builder };
        let handler = move |job: Probe, context: JobContext| behave(mode.clone(), pool.clone(), job, context);
        builder.register(handler).build().unwrap().run_until(awa_worker::shutdown_signal()).await.unwrap();
    });
}

async fn behave(mode: String, pool: PgPool, job: Probe, context: JobContext) -> Result<Outcome<Value>, JobError> {
    match job.name.as_str() {
        "ask" => {
            if let Some(told) = context.callback_payload::<Value>().await? {
                return Ok(Outcome::complete_with(told));
            }
            return Ok(Outcome::wait_for(context.callback(PATIENCE * 10).await?));
        }
        "asked" if mode == HANG => {
            context.callback(PATIENCE * 10).await?;
            std::future::pending::<()>().await;
        }
        "abort" => std::process::abort(),
        "gated" => {
            while !sqlx::query_scalar::<_, bool>("select to_regclass('public.gate') is not null")
                .fetch_one(&pool)
                .await?
            {
                tokio::task::yield_now().await;
            }
        }
        "step" if mode == HANG => {
            context.set_checkpoint("step", &400)?;
            context.progress().flush().await?;
            std::future::pending::<()>().await;
        }
        _ if mode == HANG => std::future::pending().await,
        _ if mode == LISTEN => {
            context.cancelled().await;
            return Err("interrupted".into());
        }
        _ => {}
    }
    Ok(Outcome::complete_with(json!(context.checkpoint::<u64>("step")?)))
}

async fn running(rig: &Rig, jobs: i64) {
    until("all jobs run", async || rig.count("select count(*) from awa.jobs where state = 'running'").await == jobs)
        .await;
}

// PROC-04, LOST-02, STUCK-10
#[tokio::test]
async fn jobs_of_a_killed_process_end_as_they_should_in_another() {
    killed_with(13, 1, true).await;
}

#[tokio::test]
async fn jobs_of_a_killed_process_wait_for_another_that_comes_later() {
    killed_with(3, 1, false).await;
}

/// A process is killed with these many jobs, besides some on their last attempt, some that have stored progress, some that
/// wait for a callback, and some that have opened one and run on. Another one is there already, or comes when all is quiet.
async fn killed_with(plain: usize, others: usize, is_accompanied: bool) {
    let rig = Rig::new().await;
    let (mut ids, mut last_attempts, mut with_progress) = (Vec::new(), Vec::new(), Vec::new());
    let (mut waiting, mut asked) = (Vec::new(), Vec::new());
    for _ in 0..plain {
        ids.push(rig.enqueue(probe("plain")).await);
    }
    for _ in 0..others {
        last_attempts.push(rig.enqueue(NewJob::new(&probe("plain")).max_attempts(1)).await);
        with_progress.push(rig.enqueue(probe("step")).await);
        waiting.push(rig.enqueue(probe("ask")).await);
        asked.push(rig.enqueue(probe("asked")).await);
    }
    let mut killed = Process::start(&rig, HANG);
    let all = i64::try_from(plain + 3 * others).unwrap();
    running(&rig, all).await;
    let open = "select count(*) from awa.callbacks";
    until("callbacks are open", async || rig.count(open).await == i64::try_from(2 * others).unwrap()).await;
    for id in &waiting {
        rig.state(*id, "waiting_external").await;
    }
    let stored = "select count(*) from awa.jobs where progress is not null";
    until("progress is stored", async || rig.count(stored).await == i64::try_from(others).unwrap()).await;
    let workers = async |number| {
        until("both work", async || rig.count("select count(*) from awa.workers").await == number).await;
    };
    let mut other = None;
    if is_accompanied {
        other = Some(Process::start(&rig, FINISH));
        workers(2).await;
    }
    killed.kill();
    if !is_accompanied {
        assert_eq!(rig.count("select count(*) from awa.jobs where state = 'running'").await, all);
    }
    let other = other.unwrap_or_else(|| Process::start(&rig, FINISH));
    until("all are rescued", async || rig.count("select count(*) from awa.jobs where state = 'running'").await == 0)
        .await;
    rig.execute("update awa.scheduled_jobs set run_at = now()").await;
    for id in ids.into_iter().chain(asked.iter().copied()) {
        let row = rig.state(id, "completed").await;
        assert_eq!((row.attempt, row.run_lease), (2, 2));
        assert!(row.last_error().starts_with("rescued: worker"), "{}", row.last_error());
    }
    for id in last_attempts {
        let failed = rig.state(id, "failed").await;
        assert_eq!((failed.attempt, failed.errors.as_ref().and_then(Value::as_array).map(Vec::len)), (1, Some(1)));
        assert!(failed.last_error().starts_with("rescued: worker"), "{}", failed.last_error());
    }
    for id in with_progress {
        assert_eq!(rig.state(id, "completed").await.result, Some(json!(400)));
    }
    answer_after(&rig, &waiting, &asked).await;
    other.signal("-TERM");
    assert!(other.ended().await);
    assert_eq!(rig.count("select count(*) from awa.jobs where state not in ('completed', 'failed')").await, 0);
}

/// The death of the process that opened them is nothing to jobs that wait; what an attempt has opened that died with it
/// nobody can answer any more.
async fn answer_after(rig: &Rig, waiting: &[i64], asked: &[i64]) {
    let client = rig.client().build().unwrap();
    let callback = async |id: i64| -> CallbackId {
        let opened = "select id::text from awa.callbacks where job_id = $1";
        let opened: String = sqlx::query_scalar(opened).bind(id).fetch_one(&rig.pool).await.unwrap();
        opened.parse().unwrap()
    };
    for id in waiting {
        let row = rig.row(*id).await;
        assert_eq!((row.state.as_str(), row.attempt, row.run_lease, &row.errors), ("waiting_external", 1, 1, &None));
        let answer = client.callback_resume(callback(*id).await, Some(&json!("paid"))).await.unwrap();
        assert_eq!(answer, Answered::Applied { job: JobId::new(*id), state: JobState::Available });
        let row = rig.state(*id, "completed").await;
        assert_eq!((row.attempt, row.run_lease, row.errors, row.result), (1, 2, None, Some(json!("paid"))));
    }
    for id in asked {
        let answer = client.callback_complete(callback(*id).await, Some(&json!("late"))).await.unwrap();
        assert_eq!(answer, Answered::Refused { job: JobId::new(*id), state: JobState::Completed });
        assert_eq!(rig.row(*id).await.result, Some(json!(null)));
    }
}

// The first signal drains, for as long as it takes. The second asks the handlers to stop, and costs no attempt.
#[tokio::test]
async fn second_signal_ends_the_drain() {
    for (first, second) in [("-TERM", "-TERM"), ("-TERM", "-INT"), ("-INT", "-TERM")] {
        let rig = Rig::with_sessions().await;
        let id = rig.enqueue(probe("a")).await;
        let process = Process::start(&rig, LISTEN);
        running(&rig, 1).await;
        until("sleep", async || rig.count(crate::wakeups::GATES).await == 1).await;
        process.signal(first);
        // It does not wait for work any more, but the handler goes on and gives signs of life.
        until("drain", async || rig.count(crate::wakeups::GATES).await == 0).await;
        rig.execute("create table public.drain as select now() as began").await;
        let beaten = "select count(*) from awa.jobs cross join public.drain where heartbeat_at > began";
        until("beats", async || rig.count(beaten).await == 1).await;
        assert_eq!(rig.row(id).await.state, "running");
        process.signal(second);
        assert!(process.ended().await);
        let row = rig.row(id).await;
        assert_eq!((row.state.as_str(), row.attempt, row.errors), ("available", 0, None));
        assert_eq!(rig.count("select count(*) from awa.workers").await, 0);
    }
}

// STUCK-10
#[tokio::test]
async fn job_that_kills_its_process_each_time_ends_failed_and_blocks_nobody() {
    let rig = Rig::new().await;
    let id = rig.enqueue(NewJob::new(&probe("abort")).max_attempts(3)).await;
    for attempt in 1..=3 {
        let process = Process::start(&rig, HANG);
        assert!(!process.ended().await);
        assert_eq!(rig.row(id).await.attempt, attempt);
        assert_eq!(rescue_all(&rig.pool, Duration::ZERO).await, 1);
        rig.promote().await;
    }
    let row = rig.row(id).await;
    assert_eq!((row.state.as_str(), row.attempt), ("failed", 3));
    assert_eq!(row.errors.as_ref().and_then(Value::as_array).map(Vec::len), Some(3));
    let next = rig.enqueue(probe("next")).await;
    let process = Process::start(&rig, FINISH);
    rig.state(next, "completed").await;
    process.signal("-TERM");
    assert!(process.ended().await);
}

// DUP-01
#[tokio::test]
async fn process_that_was_stopped_and_goes_on_settles_nothing_any_more() {
    let rig = Rig::new().await;
    let id = rig.enqueue(probe("gated")).await;
    let stopped = Process::start(&rig, FINISH);
    running(&rig, 1).await;
    stopped.signal("-STOP");
    until("rescue", async || rescue_all(&rig.pool, Duration::from_secs(1)).await == 1).await;
    rig.promote().await;
    let client = rig.client().register(async |_: Probe| Ok::<_, JobError>(json!("second"))).build().unwrap();
    let second = client.start().await.unwrap();
    let row = rig.state(id, "completed").await;
    assert_eq!((row.attempt, row.result.clone()), (2, Some(json!("second"))));
    rig.execute("create table public.gate ()").await;
    stopped.signal("-CONT");
    stopped.signal("-TERM");
    assert!(stopped.ended().await);
    assert_eq!(rig.row(id).await, row);
    drain(&second).await;
}

// LOST-02, LOST-04
#[tokio::test]
async fn worker_outlives_all_of_its_connections_and_its_attempts_do_too() {
    let rig = Rig::new().await;
    let gate = crate::support::Gate::new();
    let (tell, mut told) = crate::support::events();
    let passed = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), passed.clone());
        async move {
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(Value::Null)
        }
    };
    let running = rig.client().register(handler).build().unwrap().start().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let ended = "select pg_terminate_backend(pid) from pg_stat_activity
                      where application_name like 'awa %' and datname = current_database()";
        rig.execute(ended).await;
        ids.push(rig.enqueue(probe("a")).await);
        soon("start", told.recv()).await.unwrap();
    }
    gate.open();
    for id in ids {
        assert_eq!(rig.state(id, "completed").await.attempt, 1);
    }
    drain(&running).await;
}

mod long {
    // PROC-04
    #[tokio::test]
    async fn hundred_jobs_of_a_killed_process_end_as_they_should_in_another() {
        super::killed_with(70, 10, true).await;
    }

    // PROC-04
    #[tokio::test]
    async fn hundred_jobs_of_a_killed_process_wait_for_another_that_comes_later() {
        super::killed_with(70, 10, false).await;
    }
}
