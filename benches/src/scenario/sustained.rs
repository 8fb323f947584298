//! What one worker process does for as long as jobs keep coming.

use super::flow::{self, Plan};
use crate::{
    Bench, Result,
    consumer::Kind,
    jobs::Shape,
    producer::{Call, Offer},
    report::Report,
};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long the producer enqueues.
    #[arg(long, default_value_t = 30)]
    pub(super) seconds: u32,
    /// Jobs that the worker holds at once.
    #[arg(long, default_value_t = 1_024)]
    pub(super) max_workers: usize,
    /// Jobs that wait at most.
    #[arg(long, default_value_t = 10_000)]
    pub(super) backlog: u64,
    /// Offer so many jobs a second instead.
    #[arg(long)]
    pub(super) rate: Option<u64>,
    /// How the producer enqueues.
    #[arg(long, value_enum, default_value_t = Call::Insert)]
    pub(super) call: Call,
}

impl Options {
    /// What they ask for.
    pub(super) fn plan(&self) -> Plan {
        Plan {
            name: "sustained",
            seconds: self.seconds,
            consumer: Kind::Worker { max_workers: self.max_workers, reports: false },
            shape: Shape::USUAL,
            offer: self.rate.map_or(Offer::Backlog(self.backlog), Offer::Rate),
            call: self.call,
            pin: None,
            due_per_second: 0,
        }
    }
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    flow::run(&options.plan(), bench).await
}
