//! The scenarios: what runs, in which order, and what is taken from it.

mod against;
mod ceiling;
mod drain;
mod enqueue;
mod flow;
mod heartbeat;
mod idle;
mod inflight;
mod latency;
mod pairs;
mod pickup;
mod pinned;
mod quick;
mod scale;
mod sleepers;
mod sustained;
mod wakeups;

use clap::Subcommand;

use self::against::Change;
use crate::{Bench, Result, process, report::Report};

/// A scenario and its options.
#[derive(Subcommand)]
pub(crate) enum Scenario {
    /// Empty a full queue with one worker process.
    Drain(drain::Options),
    /// Producer and worker side by side.
    Sustained(sustained::Options),
    /// Wake an idle worker.
    Pickup(pickup::Options),
    /// Enqueue one by one at a steady rate: how soon each job starts.
    Latency(latency::Options),
    /// Let a worker, and a leader, have nothing to do: what that costs.
    Idle(idle::Options),
    /// Put jobs in, one by one, many at once and by COPY, against a plain INSERT or COPY of the same values.
    Enqueue(enqueue::Options),
    /// Sustained, while a transaction stays open.
    Pinned(pinned::Options),
    /// Sustained beside millions of deferred and completed jobs, in turn with an empty database.
    Scale(scale::Options),
    /// Sustained over many queues, in turn with one.
    Queues(against::Queues),
    /// Sustained with many worker processes, in turn with one.
    Processes(against::Processes),
    /// Sustained with large args, in turn with small ones.
    Payload(against::Payload),
    /// Sustained with handlers that report progress, in turn with silent ones.
    Progress(against::Common),
    /// Enqueue single jobs with wake-ups and without, in turn.
    Wakeups(wakeups::Options),
    /// All that matters in under three minutes, as ratios.
    Quick(quick::Options),
    /// A worker process of another scenario.
    #[command(hide = true)]
    Work(process::Options),
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
            Self::Latency(_) => "latency",
            Self::Idle(_) => "idle",
            Self::Queues(_) => "queues",
            Self::Processes(_) => "processes",
            Self::Payload(_) => "payload",
            Self::Progress(_) => "progress",
            Self::Wakeups(_) => "wakeups",
            Self::Quick(_) => "quick",
            Self::Work(_) => "work",
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
            Self::Latency(options) => latency::run(options, bench).await,
            Self::Idle(options) => idle::run(options, bench).await,
            Self::Queues(options) => {
                against::run("queues", Change::Queues(options.queues), &options.common, bench).await
            }
            Self::Processes(options) => {
                against::run("processes", Change::Processes(options.processes), &options.common, bench).await
            }
            Self::Payload(options) => {
                against::run("payload", Change::Payload(options.bytes), &options.common, bench).await
            }
            Self::Progress(options) => against::run("progress", Change::Progress, options, bench).await,
            Self::Wakeups(options) => wakeups::run(options, bench).await,
            Self::Quick(options) => quick::run(options, bench).await,
            Self::Work(_) => Err("a worker process has no report".into()),
        }
    }
}
