//! How soon an idle worker starts a job: from the moment when the enqueueing call has returned, hence committed, to the
//! start of the handler.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use awa_storage::enqueue::enqueue;
use awa_worker::{CancellationToken, Client, Data, JobError};
use hdrhistogram::Histogram;
use sqlx::PgPool;
use tokio::time;

use crate::{
    Bench, Result,
    database::Scratch,
    jobs::{Jobs, Noop, Shape},
    meter::Meter,
    numbers::Dice,
    report::Report,
    runtime, statements,
};

/// Long enough for the worker to start, to find nothing, and to fall asleep.
const SETTLING: Duration = Duration::from_secs(3);
/// Jobs are this far apart on average, milliseconds, with a random phase, so that no timer of the worker keeps step.
const APART_MS: u64 = 200;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs in all.
    #[arg(long, default_value_t = 50)]
    pub(super) jobs: usize,
}

/// When handlers started, by the number of their job.
type Starts = Arc<Mutex<HashMap<u64, Instant>>>;

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    statements::track(&scratch, bench.statements.is_some()).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("pickup", &pool).await?;
    report.setting("jobs", options.jobs);

    let (starts, stop) = (Starts::default(), CancellationToken::new());
    let (connect, seen, stopped) = (scratch.options(), Arc::clone(&starts), stop.clone());
    let worker = runtime::start("worker", 2, move || async move {
        let client = Client::builder(PgPool::connect_with(connect).await?).data(seen).register(note).build()?;
        client.run_until(stopped.cancelled_owned()).await?;
        client.pool().close().await;
        Ok(())
    });
    time::sleep(SETTLING).await;
    let meter = Meter::start(pool.clone()).await?;
    let began = Instant::now();
    let (mut jobs, mut dice) = (Jobs::new(0, Shape::USUAL), Dice::new(7));
    let mut committed = Vec::new();
    for _ in 0..options.jobs {
        time::sleep(Duration::from_micros(APART_MS * 500 + dice.below(APART_MS * 1_000))).await;
        let _new = enqueue(&pool, &jobs.next()?).await?;
        committed.push(Instant::now());
    }
    time::sleep(Duration::from_secs(1)).await;
    let took = began.elapsed().as_secs_f64();
    let cost = meter.cost(0.0).await?;
    stop.cancel();
    worker.join().await?;

    let mut latencies = Histogram::<u64>::new(3)?;
    let starts = starts.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (number, committed) in (1..).zip(&committed) {
        let start = starts.get(&number).ok_or_else(|| format!("job {number} has not run within a second"))?;
        // A handler may start before the producer has heard of its commit.
        latencies.record(u64::try_from(start.saturating_duration_since(*committed).as_micros())?)?;
    }
    report.latency("from commit to start of the handler", latencies);
    report.jobs_per_s = (options.jobs as f64 / took).round();
    report.cost(&cost, options.jobs as f64);
    pool.close().await;
    scratch.drop().await?;
    Ok(report)
}

async fn note(job: Noop, starts: Data<Starts>) -> std::result::Result<(), JobError> {
    let now = Instant::now();
    starts.lock().unwrap_or_else(PoisonError::into_inner).insert(job.number, now);
    Ok(())
}
