//! What keeping many running jobs alive costs: statements and log of each cycle of heartbeats, with progress and without.

use std::time::Duration;

use sqlx::PgPool;
use tokio::time;

use super::sleepers::{self, Sleepers};
use crate::{Bench, Result, database::Scratch, meter::Meter, report::Report};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs that run.
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
    /// Seconds between two heartbeats.
    #[arg(long, default_value_t = 5)]
    interval: u64,
    /// Cycles that are measured.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    cycles: u32,
}

/// What the cycles of one worker cost.
struct Spent {
    statements: f64,
    wal_bytes: f64,
    server_micros: Option<f64>,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let silent = measure(options, bench, false).await?;
    let reporting = measure(options, bench, true).await?;
    let scratch = Scratch::new(bench).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("heartbeat", &pool).await?;
    report.setting("jobs", options.jobs);
    report.setting("interval_seconds", options.interval);
    report.setting("cycles", options.cycles);
    let per_job = f64::from(options.cycles) * options.jobs as f64;
    for (spent, names) in [
        (silent, ["statements_a_cycle", "log_bytes_a_job_and_cycle", "server_cpu_us_a_job_and_cycle"]),
        (
            reporting,
            [
                "with_progress_statements_a_cycle",
                "with_progress_log_bytes_a_job_and_cycle",
                "with_progress_server_cpu_us_a_job_and_cycle",
            ],
        ),
    ] {
        report.figure(names[0], spent.statements / f64::from(options.cycles));
        report.figure(names[1], spent.wal_bytes / per_job);
        if let Some(micros) = spent.server_micros {
            report.figure(names[2], micros / per_job);
        }
    }
    report.jobs_per_s = (options.jobs as f64 / options.interval as f64).round();
    report.setting("jobs_per_s", "signs of life a second");
    pool.close().await;
    scratch.drop().await?;
    Ok(report)
}

async fn measure(options: &Options, bench: &Bench, reports: bool) -> Result<Spent> {
    let scratch = Scratch::new(bench).await?;
    scratch.on_server(&format!("alter database {} set track_functions = 'all'", scratch.name())).await?;
    sleepers::seed(&scratch, options.jobs).await?;
    let pool = scratch.pool(1);
    let interval = Duration::from_secs(options.interval);
    let sleepers = Sleepers::start(&scratch, options.jobs, interval, reports.then_some(interval / 2));
    sleepers.has_running(options.jobs).await?;
    // The first cycle writes rows that were claimed at different times; from the second on they keep step.
    time::sleep(interval * 2).await;
    let (meter, before) = (Meter::start(pool.clone()).await?, beats(&pool).await?);
    time::sleep(interval * options.cycles).await;
    let (cost, after) = (meter.cost(0.0).await?, beats(&pool).await?);
    sleepers.finish().await?;
    pool.close().await;
    scratch.drop().await?;
    Ok(Spent {
        statements: (after - before) as f64,
        wal_bytes: cost.wal_bytes,
        server_micros: cost.server_seconds.map(|seconds| seconds * 1e6),
    })
}

/// Heartbeat statements so far.
async fn beats(pool: &PgPool) -> Result<i64> {
    let calls = sqlx::query_scalar(
        "select coalesce(sum(calls), 0)::bigint from pg_stat_user_functions where schemaname = 'awa' and funcname = 'beat'",
    );
    Ok(calls.fetch_one(pool).await?)
}
