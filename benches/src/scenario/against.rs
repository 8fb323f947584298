//! One thing changed: `sustained` as it is and with the change, in turn, so that both meet the same machine. What counts is
//! the median of the ratios.

use super::{
    flow::{self, Plan},
    pairs::Pairs,
    sustained,
};
use crate::{Bench, Result, consumer::Kind, report::Report};

/// What is changed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// The same jobs in more queues.
    Queues(u32),
    /// The same worker in more processes, all but one of them in processes of their own.
    Processes(usize),
    /// Larger args.
    Payload(usize),
    /// Handlers that report progress.
    Progress,
}

/// What all of them have in common.
#[derive(clap::Args)]
pub(crate) struct Common {
    #[command(flatten)]
    plan: sustained::Options,
    /// How often each of the two runs.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
}

/// What can be chosen about queues.
#[derive(clap::Args)]
pub(crate) struct Queues {
    /// Queues that the jobs go to in turn, against one.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..))]
    pub(super) queues: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What can be chosen about processes.
#[derive(clap::Args)]
pub(crate) struct Processes {
    /// Worker processes, against one.
    #[arg(long, default_value_t = 8)]
    pub(super) processes: usize,
    #[command(flatten)]
    pub(super) common: Common,
}

/// What can be chosen about args.
#[derive(clap::Args)]
pub(crate) struct Payload {
    /// Bytes of args beyond the usual 150, which hardly compress.
    #[arg(long, default_value_t = 8_192)]
    pub(super) bytes: usize,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Runs all pairs.
pub(crate) async fn run(name: &'static str, change: Change, options: &Common, bench: &Bench) -> Result<Report> {
    let (base, changed) = plans(name, change, options)?;
    let mut pairs = Pairs::default();
    for pair in 1..=options.pairs {
        println!("  pair {pair}: as it is");
        let before = flow::run(&base, bench).await?;
        println!("  pair {pair}: {change:?}");
        pairs.push(before, flow::run(&changed, bench).await?);
    }
    let mut report = pairs.report("of_sustained")?;
    report.setting("change", format!("{change:?}"));
    Ok(report)
}

fn plans(name: &'static str, change: Change, options: &Common) -> Result<(Plan, Plan)> {
    let (mut base, mut changed) = (options.plan.plan(), options.plan.plan());
    let max_workers = options.plan.max_workers;
    (base.name, changed.name) = (name, name);
    match change {
        Change::Queues(queues) => changed.shape.queues = queues,
        Change::Processes(processes) if (1..=max_workers).contains(&processes) => {
            base.consumer = Kind::Processes { processes: 1, max_workers };
            changed.consumer = Kind::Processes { processes, max_workers };
        }
        Change::Processes(processes) => {
            return Err(format!("{processes} processes cannot share {max_workers} jobs").into());
        }
        Change::Payload(bytes) => changed.shape.padding = bytes,
        Change::Progress => changed.consumer = Kind::Worker { max_workers, reports: true },
    }
    Ok((base, changed))
}
