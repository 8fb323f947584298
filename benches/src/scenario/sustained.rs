//! What one worker process does for as long as jobs keep coming.

use super::flow::{self, Plan};
use crate::{Bench, Result, consumer::Kind, producer::Offer, report::Report};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the producer enqueues.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Jobs that the worker holds at once.
    #[arg(long, default_value_t = 1_024)]
    max_workers: usize,
    /// Jobs that wait at most.
    #[arg(long, default_value_t = 10_000)]
    backlog: u64,
    /// Offer so many jobs a second instead.
    #[arg(long)]
    rate: Option<u64>,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let plan = Plan {
        name: "sustained",
        seconds: options.seconds,
        consumer: Kind::Worker { max_workers: options.max_workers },
        offer: options.rate.map_or(Offer::Backlog(options.backlog), Offer::Rate),
        pin: None,
        due_per_second: 0,
    };
    flow::run(&plan, bench).await
}
