//! The scenarios: what runs, in which order, and what is taken from it.

mod ceiling;
mod drain;
mod enqueue;
mod flow;
mod heartbeat;
mod inflight;
mod pickup;
mod pinned;
mod scale;
mod sleepers;
mod sustained;

use clap::Subcommand;

use crate::{Bench, Result, report::Report};

/// A scenario and its options.
#[derive(Subcommand)]
pub(crate) enum Scenario {
    /// Empty a full queue with one worker process.
    Drain(drain::Options),
    /// Producer and worker side by side.
    Sustained(sustained::Options),
    /// Wake an idle worker.
    Pickup(pickup::Options),
    /// Put jobs in, one by one and many at once, against a plain INSERT of the same values.
    Enqueue(enqueue::Options),
    /// Sustained, while a transaction stays open.
    Pinned(pinned::Options),
    /// Sustained beside millions of deferred and completed jobs, in turn with an empty database.
    Scale(scale::Options),
    /// Keep many running jobs alive: statements and log of each cycle of heartbeats.
    Heartbeat(heartbeat::Options),
    /// Hold many sleeping jobs: memory of each, and how soon they are started.
    Inflight(inflight::Options),
    /// The statements alone: claim and complete in a bare loop beside a producer, without a worker.
    Ceiling(ceiling::Options),
}

impl Scenario {
    /// Its name, as on the command line.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Drain(_) => "drain",
            Self::Sustained(_) => "sustained",
            Self::Pickup(_) => "pickup",
            Self::Enqueue(_) => "enqueue",
            Self::Pinned(_) => "pinned",
            Self::Heartbeat(_) => "heartbeat",
            Self::Inflight(_) => "inflight",
            Self::Ceiling(_) => "ceiling",
            Self::Scale(_) => "scale",
        }
    }

    /// Runs it once.
    pub(crate) async fn run(&self, bench: &Bench) -> Result<Report> {
        match self {
            Self::Drain(options) => drain::run(options, bench).await,
            Self::Sustained(options) => sustained::run(options, bench).await,
            Self::Pickup(options) => pickup::run(options, bench).await,
            Self::Enqueue(options) => enqueue::run(options, bench).await,
            Self::Pinned(options) => pinned::run(options, bench).await,
            Self::Heartbeat(options) => heartbeat::run(options, bench).await,
            Self::Inflight(options) => inflight::run(options, bench).await,
            Self::Ceiling(options) => ceiling::run(options, bench).await,
            Self::Scale(options) => scale::run(options, bench).await,
        }
    }
}
