//! A look at all that matters in under three minutes: ratios, most of them to what the bare statements reach in the same run, so
//! that a slow machine does not look like a slow release.

use super::{ceiling, drain, enqueue, flow, latency, pairs::Pairs, pickup, sustained};
use crate::{Bench, Result, consumer::Kind, database::Scratch, producer::Call, report::Report};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each run of the sustained ones takes.
    #[arg(long, default_value_t = 12)]
    seconds: u32,
    /// How often the worker and the bare statements run in turn.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
}

/// Runs them.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("quick", &pool).await?;
    pool.close().await;
    scratch.drop().await?;

    let plan = sustained::Options {
        seconds: options.seconds,
        max_workers: 1_024,
        backlog: 10_000,
        rate: None,
        call: Call::Insert,
    }
    .plan();
    let bare =
        flow::Plan { name: "ceiling", consumer: Kind::Bare { loops: ceiling::LOOPS, batch: ceiling::BATCH }, ..plan };
    let mut pairs = Pairs::default();
    for _ in 0..options.pairs {
        let ceiling = flow::run(&bare, bench).await?;
        pairs.push(ceiling, flow::run(&plan, bench).await?);
    }
    let sustained = pairs.report("of_ceiling")?;
    let ceiling = sustained.figures.get("base_jobs_per_s").copied().unwrap_or(f64::NAN);
    report.jobs_per_s = sustained.jobs_per_s;
    report.wal_bytes_per_job = sustained.wal_bytes_per_job;
    report.hot_ratio = sustained.hot_ratio;
    report.server_cpu_us_per_job = sustained.server_cpu_us_per_job;
    report.client_cpu_us_per_job = sustained.client_cpu_us_per_job;
    report.figure("ceiling_jobs_per_s", ceiling);
    for (name, value) in sustained.figures {
        if name.ends_with("of_ceiling") {
            report.figure(format!("sustained_{name}"), value);
        }
    }
    let drained = drain::run(&drain::Options { jobs: 50_000, max_workers: 1_024 }, bench).await?;
    report.figure("drain_of_ceiling", drained.jobs_per_s / ceiling);
    for (name, value) in enqueue::run(&enqueue::Options { seconds: 2 }, bench).await?.figures {
        if name.ends_with("_of_plain") {
            report.figure(format!("enqueue_{name}"), value);
        }
    }
    let steady = latency::run(&latency::Options { rate: 500, seconds: 10 }, bench).await?;
    let idle = pickup::run(&pickup::Options { jobs: 25 }, bench).await?;
    for (name, part) in [("latency", steady), ("pickup", idle)] {
        if let Some(latency) = &part.latency_ms {
            report.figure(format!("{name}_ms_p50"), latency.p50);
            report.figure(format!("{name}_ms_p99"), latency.p99);
        }
    }
    Ok(report)
}
