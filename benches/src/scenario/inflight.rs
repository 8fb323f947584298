//! What a running job costs this process: memory, and how soon so many are started.

use std::{
    fs,
    time::{Duration, Instant},
};

use super::sleepers::{self, Sleepers};
use crate::{Bench, Result, database::Scratch, meter::Meter, report::Report};

/// Nothing else is to be measured: no job is beaten during the run.
const HEARTBEAT: Duration = Duration::from_secs(600);

/// Jobs that run before memory is first looked at: what the first of them needs, all of them share.
const WARM: usize = 500;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs in flight.
    #[arg(long, default_value_t = 50_000)]
    jobs: usize,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("inflight", &pool).await?;
    report.setting("jobs", options.jobs);
    report.setting("jobs_per_s", "claimed and started a second");
    sleepers::seed(&scratch, WARM).await?;
    let sleepers = Sleepers::start(&scratch, WARM + options.jobs, HEARTBEAT, None);
    sleepers.has_running(WARM).await?;
    let before = resident_bytes()?;
    sleepers::seed(&scratch, options.jobs).await?;
    let meter = Meter::start(pool.clone()).await?;
    let began = Instant::now();
    sleepers.has_running(WARM + options.jobs).await?;
    let took = began.elapsed().as_secs_f64();
    let cost = meter.cost(0.0).await?;
    let bytes = resident_bytes()? - before;
    sleepers.finish().await?;
    report.cost(&cost, options.jobs as f64);
    report.jobs_per_s = (options.jobs as f64 / took).round();
    report.figure("memory_bytes_a_job", (bytes / options.jobs as f64).round());
    report.figure("memory_mib", bytes / f64::from(1 << 20));
    pool.close().await;
    scratch.drop().await?;
    Ok(report)
}

/// Memory that this process has in use, pages that are resident.
fn resident_bytes() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("the kernel does not say")?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1024.0)
}
