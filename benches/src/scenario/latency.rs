//! How soon jobs start that come one by one at a steady rate: from the call that enqueues each, in a transaction of its own, to
//! the start of its handler. The next call does not wait for the one before: what the server is late with, all of them feel.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use awa_storage::enqueue::enqueue;
use awa_worker::{CancellationToken, Client, Data, JobError};
use hdrhistogram::Histogram;
use sqlx::PgPool;
use tokio::{
    task::JoinSet,
    time::{self, Instant},
};

use crate::{
    Bench, Result,
    database::Scratch,
    jobs::{Jobs, Noop, Shape},
    meter::Meter,
    report::Report,
    runtime, statements,
};

/// Long enough for the worker to start and for the first jobs to warm everything up.
const WARM_UP: Duration = Duration::from_secs(2);

/// Connections of the producer.
const CONNECTIONS: u32 = 4;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs a second.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: u32,
    /// How long.
    #[arg(long, default_value_t = 20)]
    pub(super) seconds: u32,
}

/// When things happened, by the number of the job.
#[derive(Default)]
struct Times {
    called: HashMap<u64, Instant>,
    committed: HashMap<u64, Instant>,
    started: HashMap<u64, Instant>,
}

type Shared = Arc<Mutex<Times>>;

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    statements::track(&scratch, bench.statements.is_some()).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("latency", &pool).await?;
    report.setting("rate", options.rate);
    let (times, stop) = (Shared::default(), CancellationToken::new());
    let (connect, seen, stopped) = (scratch.options(), Arc::clone(&times), stop.clone());
    let worker = runtime::start("worker", 2, move || async move {
        let client = Client::builder(PgPool::connect_with(connect).await?).data(seen).register(note).build()?;
        client.run_until(stopped.cancelled_owned()).await?;
        client.pool().close().await;
        Ok(())
    });
    let warm = u64::from(options.rate) * WARM_UP.as_secs();
    let jobs = u64::from(options.rate) * u64::from(options.seconds);
    produce(&scratch, &times, options.rate, warm).await?;
    lock(&times).started.clear();
    let meter = Meter::start(pool.clone()).await?;
    if bench.statements.is_some() {
        statements::reset(&pool).await?;
    }
    produce(&scratch, &times, options.rate, jobs).await?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while (lock(&times).started.len() as u64) < jobs && Instant::now() < deadline {
        time::sleep(Duration::from_millis(10)).await;
    }
    let cost = meter.cost(0.0).await?;
    if let Some(count) = bench.statements {
        report.statements = statements::top(&pool, count).await?;
    }
    stop.cancel();
    worker.join().await?;
    measure(&lock(&times), jobs, &mut report)?;
    report.jobs_per_s = f64::from(options.rate);
    report.cost(&cost, jobs as f64);
    pool.close().await;
    scratch.drop().await?;
    Ok(report)
}

/// Enqueues `count` jobs at this rate, and waits until all calls have returned. Their numbers begin at 1.
async fn produce(scratch: &Scratch, times: &Shared, rate: u32, count: u64) -> Result {
    let (options, times) = (scratch.options(), Arc::clone(times));
    let producer = runtime::start("producer", 1, move || async move {
        let pool = sqlx::postgres::PgPoolOptions::new()
            .min_connections(CONNECTIONS)
            .max_connections(CONNECTIONS)
            .connect_with(options)
            .await?;
        let mut jobs = Jobs::new(0, Shape::USUAL);
        let began = Instant::now();
        let mut calls: JoinSet<Result> = JoinSet::new();
        for number in 1..=count {
            let job = jobs.next()?;
            time::sleep_until(began + Duration::from_secs_f64((number - 1) as f64 / f64::from(rate))).await;
            let (pool, times) = (pool.clone(), Arc::clone(&times));
            calls.spawn(async move {
                lock(&times).called.insert(number, Instant::now());
                let _new = enqueue(&pool, &job).await?;
                lock(&times).committed.insert(number, Instant::now());
                Ok(())
            });
            while let Some(ended) = calls.try_join_next() {
                ended??;
            }
        }
        while let Some(ended) = calls.join_next().await {
            ended??;
        }
        pool.close().await;
        Ok(())
    });
    producer.join().await
}

fn measure(times: &Times, jobs: u64, report: &mut Report) -> Result {
    let (mut whole, mut from_commit) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
    for number in 1..=jobs {
        let start = times.started.get(&number).ok_or_else(|| format!("job {number} has not run in time"))?;
        let since = |moments: &HashMap<u64, Instant>| {
            let moment = moments.get(&number).copied().unwrap_or(*start);
            // A handler may start before the producer has heard of its commit.
            u64::try_from(start.saturating_duration_since(moment).as_micros())
        };
        whole.record(since(&times.called)?)?;
        from_commit.record(since(&times.committed)?)?;
    }
    for (name, quantile) in [("from_commit_ms_p50", 0.5), ("from_commit_ms_p99", 0.99)] {
        report.figure(name, from_commit.value_at_quantile(quantile) as f64 / 1e3);
    }
    report.latency("from the call that enqueues to the start of the handler", whole);
    Ok(())
}

fn lock(times: &Shared) -> std::sync::MutexGuard<'_, Times> {
    times.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn note(job: Noop, times: Data<Shared>) -> std::result::Result<(), JobError> {
    let now = Instant::now();
    lock(&times).started.insert(job.number, now);
    Ok(())
}
