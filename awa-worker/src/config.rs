//! Every interval and limit of a worker process, with its reason, and the check that they fit together.
//!
//! The builder collects settings without judging them; [`Config::mistakes`] judges all of them at once, so that a service
//! with three wrong settings learns of three. Inside the runtime the values are trusted.

use std::ops::RangeInclusive;
use std::time::Duration;

use awa_maintenance::Duties;
use awa_model::{InvalidName, InvalidSchedule, QueueName};

/// Size of one job's result as JSON, in bytes. Larger output belongs into a store of its own, with its key as the result.
pub(crate) const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// A live worker may miss this many heartbeats: the time after which an attempt counts as dead is at least so many
/// intervals.
pub(crate) const HEARTBEATS_PER_STALENESS_MIN: u32 = 3;

/// How many jobs of one queue a process may hold at once unless it says.
const MAX_WORKERS_DEFAULT: usize = 16;

/// What a queue or a handler may allow one attempt.
pub(crate) const TIMEOUT: RangeInclusive<Duration> = Duration::from_millis(1)..=awa_model::limits::TIMEOUT_MAX;

/// Settings of one queue in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    pub(crate) max_workers: usize,
    pub(crate) timeout: Option<Duration>,
}

impl QueueConfig {
    /// 16 jobs at a time.
    #[must_use]
    pub fn new() -> Self {
        Self { max_workers: MAX_WORKERS_DEFAULT, timeout: None }
    }

    /// How many jobs of the queue this process holds at once: running, or ended and not yet settled.
    ///
    /// At least 1. Thousands are fine for handlers that mostly wait.
    #[must_use]
    pub fn max_workers(mut self, max_workers: usize) -> Self {
        self.max_workers = max_workers;
        self
    }

    /// Limits how long one attempt of any job of the queue may take in this process: 1 ms to ten years. The shortest limit
    /// of queue, job and handler counts. Without limit unless given.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// Settings of the process, as the builder's methods of the same names document them.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) name: Option<String>,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) stale_after: Duration,
    pub(crate) drain_timeout: Duration,
    pub(crate) cancel_grace: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) connections: u32,
    pub(crate) claim_batch_max: usize,
    pub(crate) settle_batch_max: usize,
    pub(crate) settle_give_up_after: Duration,
    pub(crate) progress_bytes_max: usize,
    pub(crate) listen: bool,
    pub(crate) maintenance: bool,
    pub(crate) duties: Duties,
    /// Runs no jobs.
    pub(crate) maintenance_only: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            heartbeat_interval: Duration::from_secs(30),
            stale_after: Duration::from_secs(90),
            drain_timeout: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            poll_interval: Duration::from_millis(500),
            connections: 4,
            claim_batch_max: 512,
            settle_batch_max: 512,
            settle_give_up_after: Duration::from_secs(30),
            progress_bytes_max: awa_model::limits::PROGRESS_BYTES_MAX,
            listen: true,
            maintenance: true,
            duties: Duties::all(),
            maintenance_only: false,
        }
    }
}

impl Config {
    /// Everything that is wrong with the settings.
    pub(crate) fn mistakes(&self) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        if self.heartbeat_interval.saturating_mul(HEARTBEATS_PER_STALENESS_MIN) > self.stale_after {
            mistakes.push(Mistake::HeartbeatTooSlow {
                heartbeat_interval: self.heartbeat_interval,
                stale_after: self.stale_after,
            });
        }
        let bounds = [
            ("heartbeat_interval", self.heartbeat_interval, Duration::from_millis(100), Duration::from_secs(3600)),
            ("poll_interval", self.poll_interval, Duration::from_millis(10), Duration::from_secs(3600)),
            ("cancel_grace", self.cancel_grace, Duration::ZERO, Duration::from_secs(86_400)),
            ("settle_give_up_after", self.settle_give_up_after, Duration::from_millis(10), Duration::from_secs(86_400)),
        ];
        for (setting, value, least, most) in bounds {
            if value < least || value > most {
                mistakes.push(Mistake::DurationOutOfRange { setting, value, least, most });
            }
        }
        let bounds = [
            ("connections", self.connections as usize, 2, 1000),
            ("claim_batch_max", self.claim_batch_max, 1, 4096),
            ("settle_batch_max", self.settle_batch_max, 1, 4096),
            ("progress_bytes_max", self.progress_bytes_max, 1024, 16 * 1024 * 1024),
        ];
        for (setting, value, least, most) in bounds {
            if value < least || value > most {
                mistakes.push(Mistake::NumberOutOfRange { setting, value, least, most });
            }
        }
        mistakes
    }
}

/// A queue as it will be served.
#[derive(Debug, Clone)]
pub(crate) struct ServedQueue {
    pub(crate) name: QueueName,
    pub(crate) max_workers: usize,
    pub(crate) timeout: Option<Duration>,
}

/// Checks the queues given to the builder, in the order given.
pub(crate) fn check_queues(given: &[(String, QueueConfig)]) -> (Vec<ServedQueue>, Vec<Mistake>) {
    let mut served: Vec<ServedQueue> = Vec::new();
    let mut mistakes = Vec::new();
    for (name, config) in given {
        if config.max_workers == 0 {
            mistakes.push(Mistake::NoWorkers { queue: name.clone() });
        }
        if let Some(timeout) = config.timeout.filter(|timeout| !TIMEOUT.contains(timeout)) {
            mistakes.push(Mistake::QueueTimeout { queue: name.clone(), timeout });
        }
        match QueueName::new(name.clone()) {
            Err(reason) => mistakes.push(Mistake::InvalidQueue { queue: name.clone(), reason }),
            Ok(queue) if served.iter().any(|other| other.name == queue) => {
                mistakes.push(Mistake::QueueTwice { queue: name.clone() });
            }
            Ok(queue) => {
                let QueueConfig { max_workers, timeout } = *config;
                served.push(ServedQueue { name: queue, max_workers, timeout });
            }
        }
    }
    (served, mistakes)
}

/// Every mistake in how a client was put together.
///
/// `Debug` prints the message: what a `main` that returns the error shows has to be readable.
#[derive(Clone, PartialEq, Eq)]
pub struct BuildError {
    mistakes: Vec<Mistake>,
}

impl BuildError {
    /// `Err` with all mistakes, or `Ok` if there is none.
    pub(crate) fn unless_empty(mistakes: Vec<Mistake>) -> Result<(), Self> {
        if mistakes.is_empty() { Ok(()) } else { Err(Self { mistakes }) }
    }

    /// The mistakes; at least one.
    #[must_use]
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "the client cannot be built: ")?;
        for (number, mistake) in self.mistakes.iter().enumerate() {
            if number > 0 {
                write!(formatter, "; ")?;
            }
            write!(formatter, "{mistake}")?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for BuildError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for BuildError {}

/// One mistake in how a client was put together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// A healthy attempt would now and then be taken for dead.
    #[error(
        "heartbeat_interval is {heartbeat_interval:?} and stale_after {stale_after:?}: stale_after must be at least 3 intervals"
    )]
    HeartbeatTooSlow {
        /// The time between two signs of life.
        heartbeat_interval: Duration,
        /// The time without one after which an attempt counts as dead.
        stale_after: Duration,
    },
    /// What follows for maintenance from the settings does not fit together.
    #[error("maintenance: {rule}")]
    Maintenance {
        /// The rule that is broken.
        rule: awa_maintenance::InvalidConfig,
    },
    /// A duration that cannot work.
    #[error("{setting} is {value:?}, {least:?} to {most:?} are allowed")]
    DurationOutOfRange {
        /// The builder's method.
        setting: &'static str,
        /// What it was given.
        value: Duration,
        /// The least it takes.
        least: Duration,
        /// The most it takes.
        most: Duration,
    },
    /// A number that cannot work.
    #[error("{setting} is {value}, {least} to {most} are allowed")]
    NumberOutOfRange {
        /// The builder's method.
        setting: &'static str,
        /// What it was given.
        value: usize,
        /// The least it takes.
        least: usize,
        /// The most it takes.
        most: usize,
    },
    /// A queue that would never run a job.
    #[error("queue {queue:?} has max_workers 0, at least 1 is needed")]
    NoWorkers {
        /// The queue.
        queue: String,
    },
    /// A queue with a timeout that cannot work.
    #[error("queue {queue:?} has the timeout {timeout:?}, 1ms to ten years are allowed")]
    QueueTimeout {
        /// The queue.
        queue: String,
        /// What it was given.
        timeout: Duration,
    },
    /// A kind that would never run.
    #[error("the handler of {kind:?} has max_workers 0, at least 1 is needed")]
    NoWorkersOfKind {
        /// The kind of its args.
        kind: &'static str,
    },
    /// A schedule that cannot be.
    #[error("schedule {schedule:?}: {reason}")]
    InvalidSchedule {
        /// Its name.
        schedule: String,
        /// What is wrong with it.
        reason: InvalidSchedule,
    },
    /// Two schedules of one name.
    #[error("schedule {schedule:?} is given twice")]
    ScheduleTwice {
        /// Their name.
        schedule: String,
    },
    /// A name that no owner of schedules can have.
    #[error("schedule owner {owner:?}: {reason}")]
    InvalidOwner {
        /// The name given.
        owner: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// A handler with a timeout that cannot work.
    #[error("the handler of {kind:?} has the timeout {timeout:?}, 1ms to ten years are allowed")]
    HandlerTimeout {
        /// The kind of its args.
        kind: &'static str,
        /// What it was given.
        timeout: Duration,
    },
    /// A queue name that no job can have.
    #[error("queue {queue:?}: {reason}")]
    InvalidQueue {
        /// The name given.
        queue: String,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// A queue given twice.
    #[error("queue {queue:?} is given twice")]
    QueueTwice {
        /// The queue.
        queue: String,
    },
    /// Handlers or queues for a client that does maintenance and nothing else, or no maintenance.
    #[error(
        "this client does maintenance only: it takes neither handlers nor queues, and cannot be without maintenance"
    )]
    MaintenanceOnly,
    /// Queues without anything to run on them.
    #[error("queues are given, but no handler is registered")]
    NoHandlers,
    /// A kind that no job can have.
    #[error("kind {kind:?}: {reason}")]
    InvalidKind {
        /// The kind of the args.
        kind: &'static str,
        /// What is wrong with it.
        reason: InvalidName,
    },
    /// Two handlers for one kind, aliases included.
    #[error("kind {kind:?} has two handlers")]
    KindTwice {
        /// The kind.
        kind: &'static str,
    },
    /// A handler asks for a value that nobody gave.
    #[error("the handler of {kind:?} needs Data<{data}>, which was not given")]
    MissingData {
        /// The kind that the handler handles.
        kind: &'static str,
        /// The type of the value.
        data: &'static str,
    },
    /// Two values of one type: a handler could get only one of them.
    #[error("Data<{data}> is given twice")]
    DataTwice {
        /// The type of the values.
        data: &'static str,
    },
}

#[cfg(test)]
mod tests;
