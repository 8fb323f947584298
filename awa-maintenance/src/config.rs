//! Every interval and limit of maintenance, with its default and the rules between them.

use std::time::Duration;

use crate::Duties;

/// The intervals and limits. Checked once, by [`Maintainer::new`](crate::Maintainer::new); trusted from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaintenanceConfig {
    /// What this process does while it leads. All processes of a fleet have to agree, since any may lead. Default all.
    pub duties: Duties,
    /// How often workers show a sign of life. Has to be what they are configured with. Default 30 s.
    pub heartbeat: Duration,
    /// Workers and attempts silent for longer are taken for dead. At least three heartbeats (DUP-07). Default 90 s.
    pub staleness: Duration,
    /// How long after its deadline a worker has to end an attempt itself. Default 5 s.
    pub deadline_grace: Duration,
    /// Workers silent for this long are taken out of the registry. At least the staleness. Default 1 h.
    pub worker_forget: Duration,
    /// Time between two sweeps of rescue. Default 10 s.
    pub rescue_interval: Duration,
    /// A pass of rescue stops after the claimed batch in which it reached this many attempts. Default 500.
    pub rescue_jobs_max: u32,
    /// A pass of rescue stops after this long. Default 2 s.
    pub rescue_budget: Duration,
    /// Jobs promoted in one statement, at most. Default 4096.
    pub promote_batch_max: u32,
    /// Least time between two batches that were not full. Default 250 ms.
    pub promote_interval_min: Duration,
    /// Most time between two looks for due jobs. Default 1 s.
    pub promote_interval_max: Duration,
    /// Callbacks looked at in one statement, at most. Default 500.
    pub callback_batch_max: u32,
    /// Least time between two looks for callbacks that are due. Default 250 ms.
    pub callback_interval_min: Duration,
    /// Most time between two looks for callbacks that are due. Default 5 s.
    pub callback_interval_max: Duration,
    /// Most time between two looks for schedules that are due; one that was just set is noticed after that. Promotion may look on their
    /// behalf; while it fails, this takes up to a quarter longer. Default 1 s.
    pub schedule_interval_max: Duration,
    /// Least time between two looks at the ring. Default 250 ms.
    pub ring_interval_min: Duration,
    /// Most time between two looks at the ring. Default 5 s.
    pub ring_interval_max: Duration,
    /// Rows that are moved out of a segment to empty it, at most; more are left to drain. Default 5000.
    pub stragglers_max: u32,
    /// Time between two looks at the list of claimed batches. Default 10 s.
    pub claims_interval: Duration,
    /// The list is emptied when it is this large, in bytes. Default 1 MiB.
    pub claims_bytes: u64,
    /// And when it has been written to for this long. Default 10 s.
    pub claims_age: Duration,
    /// Time between two sweeps of retention. Default 60 s.
    pub prune_interval: Duration,
    /// Rows deleted in one statement, at most. Default 1000.
    pub prune_batch_max: u32,
    /// Rows that one step of the audit looks at, at most. Default 5000.
    pub audit_rows_max: u32,
    /// Least time between two steps of the audit. Default 10 s.
    pub audit_interval_min: Duration,
    /// How long an election lasts without renewal; it is renewed three times as often. Default 15 s.
    pub leader_term: Duration,
    /// A pass that takes longer is given up and repeated. Default 60 s.
    pub pass_time_max: Duration,
    /// How long a duty rests after a pass that failed. Default 1 s.
    pub retry_interval: Duration,
}

impl Default for MaintenanceConfig {
    fn default() -> Self {
        Self {
            duties: Duties::all(),
            heartbeat: Duration::from_secs(30),
            staleness: Duration::from_secs(90),
            deadline_grace: Duration::from_secs(5),
            worker_forget: Duration::from_secs(3600),
            rescue_interval: Duration::from_secs(10),
            rescue_jobs_max: 500,
            rescue_budget: Duration::from_secs(2),
            promote_batch_max: 4096,
            promote_interval_min: Duration::from_millis(250),
            promote_interval_max: Duration::from_secs(1),
            callback_batch_max: 500,
            callback_interval_min: Duration::from_millis(250),
            callback_interval_max: Duration::from_secs(5),
            schedule_interval_max: Duration::from_secs(1),
            ring_interval_min: Duration::from_millis(250),
            ring_interval_max: Duration::from_secs(5),
            stragglers_max: 5000,
            claims_interval: Duration::from_secs(10),
            claims_bytes: 1 << 20,
            claims_age: Duration::from_secs(10),
            prune_interval: Duration::from_secs(60),
            prune_batch_max: 1000,
            audit_rows_max: 5000,
            audit_interval_min: Duration::from_secs(10),
            leader_term: Duration::from_secs(15),
            pass_time_max: Duration::from_secs(60),
            retry_interval: Duration::from_secs(1),
        }
    }
}

impl MaintenanceConfig {
    /// What follows from how often the workers of a fleet show signs of life, when they count as dead, and how long a handler that
    /// was asked to stop may take: sweeps of rescue come often enough for that, a dead leader delays them by no more than half of
    /// the staleness, and nobody is rescued from a worker that is about to end an attempt by itself.
    #[must_use]
    pub fn of_fleet(heartbeat: Duration, staleness: Duration, cancel_grace: Duration) -> Self {
        let usual = Self::default();
        Self {
            heartbeat,
            staleness,
            deadline_grace: cancel_grace.saturating_add(DEADLINE_ALLOWANCE),
            worker_forget: usual.worker_forget.max(staleness.saturating_mul(2)),
            rescue_interval: usual.rescue_interval.min(staleness / SWEEPS_PER_STALENESS),
            leader_term: usual.leader_term.min(staleness / 2).max(FLEET_TERM_MIN),
            ..usual
        }
    }
}

/// A rule that a configuration breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// A healthy worker would look dead now and then.
    #[error("stale_after is {staleness:?}, which must be at least three heartbeats of {heartbeat:?}")]
    StalenessTooShort {
        /// The staleness given.
        staleness: Duration,
        /// The heartbeat given.
        heartbeat: Duration,
    },
    /// An interval or limit of zero.
    #[error("{setting} must not be zero")]
    Zero {
        /// Which.
        setting: &'static str,
    },
    /// Two settings in the wrong order.
    #[error("{lower} must not exceed {upper}")]
    WrongOrder {
        /// The one that has to be smaller.
        lower: &'static str,
        /// The one that has to be larger.
        upper: &'static str,
    },
    /// A term too short to be renewed in time over an ordinary network.
    #[error("leader_term is {term:?}, which must be at least {least:?}")]
    TermTooShort {
        /// The term given.
        term: Duration,
        /// The least.
        least: Duration,
    },
    /// An interval that the database's calendar cannot add to a date.
    #[error("{setting} must be at most a year")]
    TooLong {
        /// Which.
        setting: &'static str,
    },
}

/// Rescue sweeps this many times within the time after which an attempt is stale, and at least every ten seconds.
const SWEEPS_PER_STALENESS: u32 = 9;

/// What an attempt that overran its time may take on top of the grace of its handler: the database counts from the claim, the
/// process from the start, for which a job waits up to a second where its kind is limited; and its outcome has to arrive.
const DEADLINE_ALLOWANCE: Duration = Duration::from_secs(6);

/// A live leader should not renew its term all the time.
const FLEET_TERM_MIN: Duration = Duration::from_secs(3);

/// A term shorter than this is lost to an ordinary pause of a process or a network.
const TERM_MIN: Duration = Duration::from_secs(1);

const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

impl MaintenanceConfig {
    /// Checks every rule.
    ///
    /// # Errors
    ///
    /// Every rule that is broken, not only the first.
    pub fn validate(&self) -> Result<(), Vec<InvalidConfig>> {
        let mut broken = self.zeros();
        broken.extend(
            self.durations()
                .into_iter()
                .filter_map(|(setting, value)| (value > YEAR).then_some(InvalidConfig::TooLong { setting })),
        );
        if self.staleness < self.heartbeat * 3 {
            broken.push(InvalidConfig::StalenessTooShort { staleness: self.staleness, heartbeat: self.heartbeat });
        }
        if self.leader_term < TERM_MIN {
            broken.push(InvalidConfig::TermTooShort { term: self.leader_term, least: TERM_MIN });
        }
        let order = [
            ("staleness", self.staleness, "worker_forget", self.worker_forget),
            ("rescue_budget", self.rescue_budget, "pass_time_max", self.pass_time_max),
            ("promote_interval_min", self.promote_interval_min, "promote_interval_max", self.promote_interval_max),
            ("callback_interval_min", self.callback_interval_min, "callback_interval_max", self.callback_interval_max),
            ("ring_interval_min", self.ring_interval_min, "ring_interval_max", self.ring_interval_max),
        ];
        broken.extend(order.into_iter().filter_map(|(lower, low, upper, high)| {
            (low > high).then_some(InvalidConfig::WrongOrder { lower, upper })
        }));
        if broken.is_empty() { Ok(()) } else { Err(broken) }
    }

    fn zeros(&self) -> Vec<InvalidConfig> {
        let counts = [
            ("rescue_jobs_max", u64::from(self.rescue_jobs_max)),
            ("promote_batch_max", u64::from(self.promote_batch_max)),
            ("callback_batch_max", u64::from(self.callback_batch_max)),
            ("stragglers_max", u64::from(self.stragglers_max)),
            ("claims_bytes", self.claims_bytes),
            ("prune_batch_max", u64::from(self.prune_batch_max)),
            ("audit_rows_max", u64::from(self.audit_rows_max)),
        ];
        let counts = counts.into_iter().filter(|(_, value)| *value == 0).map(|(setting, _)| setting);
        let durations = self.durations();
        let durations = durations
            .into_iter()
            .filter(|(setting, value)| value.is_zero() && *setting != "deadline_grace")
            .map(|(setting, _)| setting);
        counts.chain(durations).map(|setting| InvalidConfig::Zero { setting }).collect()
    }

    fn durations(&self) -> [(&'static str, Duration); 20] {
        [
            ("heartbeat", self.heartbeat),
            ("staleness", self.staleness),
            ("deadline_grace", self.deadline_grace),
            ("worker_forget", self.worker_forget),
            ("rescue_interval", self.rescue_interval),
            ("rescue_budget", self.rescue_budget),
            ("promote_interval_min", self.promote_interval_min),
            ("promote_interval_max", self.promote_interval_max),
            ("callback_interval_min", self.callback_interval_min),
            ("callback_interval_max", self.callback_interval_max),
            ("schedule_interval_max", self.schedule_interval_max),
            ("ring_interval_min", self.ring_interval_min),
            ("ring_interval_max", self.ring_interval_max),
            ("claims_interval", self.claims_interval),
            ("claims_age", self.claims_age),
            ("prune_interval", self.prune_interval),
            ("audit_interval_min", self.audit_interval_min),
            ("leader_term", self.leader_term),
            ("pass_time_max", self.pass_time_max),
            ("retry_interval", self.retry_interval),
        ]
    }
}

#[cfg(test)]
mod tests;
