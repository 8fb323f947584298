//! What the statements can do: claim and complete in a bare loop beside a producer. No worker can be faster.

use super::flow::{self, Plan};
use crate::{
    Bench, Result,
    consumer::Kind,
    jobs::Shape,
    pin::Pin,
    producer::{Call, Offer},
    report::Report,
};

/// Loops that claim and complete, unless another number is asked for.
pub(super) const LOOPS: usize = 2;
/// Jobs that one claim takes at most, unless another number is asked for.
pub(super) const BATCH: usize = 256;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the producer enqueues.
    #[arg(long, default_value_t = 30)]
    seconds: u32,
    /// Loops that claim and complete.
    #[arg(long, default_value_t = LOOPS)]
    loops: usize,
    /// Jobs that one claim takes at most.
    #[arg(long, default_value_t = BATCH)]
    batch: usize,
    /// Jobs that wait at most.
    #[arg(long, default_value_t = 10_000)]
    backlog: u64,
    /// Offer so many jobs a second instead.
    #[arg(long)]
    rate: Option<u64>,
    /// Hold a transaction open meanwhile.
    #[arg(long)]
    pin: Option<Pin>,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let plan = Plan {
        name: "ceiling",
        seconds: options.seconds,
        consumer: Kind::Bare { loops: options.loops, batch: options.batch },
        shape: Shape::USUAL,
        offer: options.rate.map_or(Offer::Backlog(options.backlog), Offer::Rate),
        call: Call::Insert,
        pin: options.pin,
        due_per_second: 0,
    };
    flow::run(&plan, bench).await
}
