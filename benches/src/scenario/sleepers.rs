//! Jobs that do nothing but be there: what both `heartbeat` and `inflight` run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use awa_worker::{CancellationToken, Client, Data, JobContext, JobError, QueueConfig};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::time;

use crate::{
    Result,
    database::Scratch,
    jobs::{self, Noop},
    runtime::{self, Crew},
};

/// How often it is asked whether all jobs run.
const LOOK: Duration = Duration::from_millis(5);

/// Rows that one statement inserts.
const CHUNK: usize = 50_000;

/// Handlers at rest, in one worker process on two threads.
pub(super) struct Sleepers {
    running: Arc<AtomicUsize>,
    stop: CancellationToken,
    crew: Crew<()>,
}

/// What handlers share.
#[derive(Clone)]
struct Rest {
    running: Arc<AtomicUsize>,
    stop: CancellationToken,
    /// How often a handler reports progress, if it does.
    reports: Option<Duration>,
}

/// Enqueues `jobs` jobs by statements of the server alone, so that this process has not used any memory for them.
pub(super) async fn seed(scratch: &Scratch, jobs: usize) -> Result {
    let pool = scratch.pool(1);
    for first in (1..=jobs).step_by(CHUNK) {
        let last = jobs.min(first + CHUNK - 1);
        let statement = format!(
            "insert into awa.jobs_hot (kind, queue, args)
             select '{}', '{}', jsonb_build_object('number', number, 'account', number % 1000000, 'address',
                    'someone.' || number % 10000 || '@example.com', 'template', 'order_confirmation', 'trace',
                    md5(number::text), 'retries', false)
               from generate_series({first}, {last}) as number",
            jobs::KIND,
            jobs::QUEUE,
        );
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&pool).await?;
    }
    pool.close().await;
    Ok(())
}

impl Sleepers {
    /// Starts a worker for up to `jobs` of them.
    pub(super) fn start(scratch: &Scratch, jobs: usize, heartbeat: Duration, reports: Option<Duration>) -> Self {
        let (running, stop) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
        let rest = Rest { running: Arc::clone(&running), stop: stop.clone(), reports };
        let (options, stopped) = (scratch.options(), stop.clone());
        let crew = runtime::start("worker", 2, move || async move {
            let client = Client::builder(PgPool::connect_with(options).await?)
                .queue(jobs::QUEUE, QueueConfig::new().max_workers(jobs))
                .heartbeat_interval(heartbeat)
                .stale_after(heartbeat * 30)
                .drain_timeout(Duration::from_secs(120))
                .data(rest)
                .register(sleep)
                .build()?;
            let report = client.run_until(stopped.cancelled_owned()).await?;
            client.pool().close().await;
            match report.left_to_rescue + report.returned {
                0 => Ok(()),
                left => Err(format!("{left} jobs were not settled").into()),
            }
        });
        Self { running, stop, crew }
    }

    /// Waits until so many handlers run.
    pub(super) async fn has_running(&self, jobs: usize) -> Result {
        while self.running.load(Ordering::Relaxed) < jobs {
            if self.crew.has_ended() {
                return Err("the worker has ended".into());
            }
            time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Lets all of them end, and waits until they are settled.
    pub(super) async fn finish(self) -> Result {
        self.stop.cancel();
        self.crew.join().await
    }
}

async fn sleep(_job: Noop, context: JobContext, rest: Data<Rest>) -> std::result::Result<(), JobError> {
    rest.running.fetch_add(1, Ordering::Relaxed);
    let Some(pause) = rest.reports else {
        rest.stop.cancelled().await;
        return Ok(());
    };
    let mut percent = 0;
    while time::timeout(pause, rest.stop.cancelled()).await.is_err() {
        percent = (percent + 1) % 100;
        context.progress().set(percent, "reading the next page")?;
    }
    Ok(())
}
