//! Whether throughput stays flat while a transaction stays open: it keeps dead rows from being removed and the horizon of
//! the cursors from moving. Averages hide stalls: look at the seconds.

use super::flow::{self, Plan};
use crate::{
    Bench, Result,
    consumer::Kind,
    jobs::Shape,
    pin::Pin,
    producer::{Call, Offer},
    report::Report,
};

/// Jobs a second offered beside a reader of awa.jobs_hot. No segment can be emptied then, so the table grows with the rate.
const HOT_READER_RATE: u64 = 8_000;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Which transaction stays open.
    #[arg(long)]
    pin: Pin,
    /// How long the producer enqueues.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Jobs that the worker holds at once.
    #[arg(long, default_value_t = 1_024)]
    max_workers: usize,
    /// Jobs that wait at most.
    #[arg(long, default_value_t = 10_000)]
    backlog: u64,
    /// Offer so many jobs a second instead. Beside a reader of awa.jobs_hot it is 8,000 unless said otherwise.
    #[arg(long)]
    rate: Option<u64>,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let rate = options.rate.or((options.pin == Pin::HotReader).then_some(HOT_READER_RATE));
    let plan = Plan {
        name: "pinned",
        seconds: options.seconds,
        consumer: Kind::Worker { max_workers: options.max_workers, reports: false },
        shape: Shape::USUAL,
        offer: rate.map_or(Offer::Backlog(options.backlog), Offer::Rate),
        call: Call::Insert,
        pin: Some(options.pin),
        due_per_second: 0,
    };
    flow::run(&plan, bench).await
}
