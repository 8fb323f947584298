//! What every Rust peer runs: the same scenarios, clock, payload and judge, so that peers differ in nothing but themselves.
//!
//! A peer is a program: an implementation of [`Peer`] over the peer's public API, and [`main`](run). It says `ready` on its
//! standard output when its database is set up, begins when a line comes in (or standard input ends), prints one line of
//! JSON, and stays until standard input ends, so that whoever started it can read what the run has cost first.
//!
//! Map: [`arguments`] is the command line; [`scenario`] runs; [`seen`] is what handlers report to; [`judge`] asks the
//! database what is left; [`payload`] is the work; [`outcome`] is the line.

mod arguments;
mod judge;
mod outcome;
mod payload;
mod scenario;
mod seen;

use std::error::Error;
use std::future::Future;
use std::process::ExitCode;

pub use payload::{KIND, Payload, QUEUE};
pub use seen::Seen;

use arguments::Arguments;

/// What every step answers: its value, or the reason why there is no measurement.
pub type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Which settings a peer runs with. Both are stated by [`Peer::configuration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settings {
    /// The best that its documentation offers for throughput, with nothing switched off that keeps jobs safe.
    Best,
    /// What somebody gets who sets nothing.
    Defaults,
}

/// What a peer is given.
#[derive(Clone, Debug)]
pub struct Setup {
    /// An empty database, all its own.
    pub url: String,
    /// How to run.
    pub settings: Settings,
    /// Where its handler reports.
    pub seen: Seen,
}

impl Setup {
    /// Whether the best settings were asked for.
    #[must_use]
    pub fn best(&self) -> bool {
        self.settings == Settings::Best
    }
}

/// A job queue, through its public API.
pub trait Peer: Send + Sync + Sized + 'static {
    /// Its name, as in the table.
    const NAME: &'static str;
    /// Its version.
    const VERSION: &'static str;
    /// A query for one number: the jobs that are not completed, failed ones included. Judges every run.
    const LEFT: &'static str;

    /// The settings in words, for the table.
    fn configuration(settings: Settings) -> &'static str;

    /// Makes its schema, and whatever it needs to enqueue.
    fn open(setup: Setup) -> impl Future<Output = Result<Self>>;

    /// Enqueues one job in a transaction of its own.
    fn enqueue_one(&self, payload: Payload) -> impl Future<Output = Result> + Send;

    /// Enqueues many jobs in the best way that the API has.
    fn enqueue_many(&self, payloads: Vec<Payload>) -> impl Future<Output = Result> + Send;

    /// Starts one worker process's worth of work in the background. It runs until the program ends.
    fn start(&self) -> impl Future<Output = Result>;
}

/// The whole program.
#[must_use]
pub fn run<P: Peer>() -> ExitCode {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(scenario::run::<P>(&arguments)));
    match outcome {
        // Ends with the workers still running: whoever started this has read what it wanted, and drops the database.
        Ok(()) => std::process::exit(0),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1)
        }
    }
}
