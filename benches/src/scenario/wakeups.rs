//! What waking sleeping workers costs those who enqueue: eight producers of single jobs, as it is and with `awa.wake` made to do
//! nothing, in turn; without any worker, and with one that serves the queue.

use std::time::Duration;

use awa_worker::{CancellationToken, Client, JobError};
use sqlx::PgPool;
use tokio::time;

use super::enqueue::{Way, insert};
use crate::{Bench, Result, database::Scratch, jobs::Noop, numbers::median, report::Report, runtime};

const WAY: Way = Way { name: "single_8", producers: 8, jobs: 1 };

/// Long enough for the worker to start and to fall asleep.
const SETTLING: Duration = Duration::from_secs(2);

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each measurement takes.
    #[arg(long, default_value_t = 8)]
    seconds: u32,
    /// How often each of the four runs.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
}

/// Runs all pairs.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("wakeups", &pool).await?;
    pool.close().await;
    scratch.drop().await?;
    for (name, served) in [("unserved", false), ("served", true)] {
        let (mut with, mut ratios) = (Vec::new(), Vec::new());
        for pair in 1..=options.pairs {
            let without = measure(options, bench, served, false).await?;
            with.push(measure(options, bench, served, true).await?);
            ratios.push(with[with.len() - 1] / without);
            println!("  {name} {pair}: {:.0} rows/s, {:.3} of none", with[with.len() - 1], ratios[ratios.len() - 1]);
        }
        report.figure(format!("{name}_rows_per_s"), median(&with).round());
        report.figure(format!("{name}_of_no_wakeups"), median(&ratios));
        let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.3}")).collect();
        report.setting(&format!("{name}_of_no_wakeups_by_pair"), each.join(" "));
        report.jobs_per_s = median(&with).round();
    }
    Ok(report)
}

/// Rows a second.
async fn measure(options: &Options, bench: &Bench, served: bool, wakes: bool) -> Result<f64> {
    let scratch = Scratch::new(bench).await?;
    let pool = scratch.pool(1);
    if !wakes {
        let nothing = "create or replace function awa.wake(p_queue text) returns void language plpgsql as 'begin end'";
        sqlx::raw_sql(nothing).execute(&pool).await?;
    }
    let stop = CancellationToken::new();
    let worker = served.then(|| {
        let (connect, stopped) = (scratch.options(), stop.clone());
        runtime::start("worker", 2, move || async move {
            let client = Client::builder(PgPool::connect_with(connect).await?)
                .register(async |_: Noop| -> std::result::Result<(), JobError> { Ok(()) })
                .build()?;
            client.run_until(stopped.cancelled_owned()).await?;
            client.pool().close().await;
            Ok(())
        })
    });
    if worker.is_some() {
        time::sleep(SETTLING).await;
    }
    let inserted = insert(&scratch, &pool, Duration::from_secs(options.seconds.into()), &WAY, true).await?;
    stop.cancel();
    if let Some(worker) = worker {
        worker.join().await?;
    }
    pool.close().await;
    scratch.drop().await?;
    Ok(inserted.rate())
}
