//! The states of a job and the plane that each lives in. How a job gets from one to another is in
//! [`EDGES`](crate::EDGES).

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where a job is in its life.
///
/// The order of the variants is that of the database type `awa.job_state` and part of the contract: uniqueness masks
/// number their bits by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(type_name = "awa.job_state", rename_all = "snake_case"))]
pub enum JobState {
    /// Waits for its time.
    Scheduled,
    /// May be claimed by any worker that knows its kind.
    Available,
    /// A worker holds it under a lease.
    Running,
    /// Parked until something outside answers a callback.
    WaitingExternal,
    /// An attempt went wrong; waits for the next one.
    Retryable,
    /// Done.
    Completed,
    /// Given up: a fatal error, or no attempts left. An operator may retry it.
    Failed,
    /// Called off. An operator may retry it.
    Cancelled,
}

/// Which table holds a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Plane {
    /// `awa.jobs_hot`: what is dispatched, runs, or has ended.
    Hot,
    /// `awa.scheduled_jobs`: what waits for a time.
    Deferred,
}

impl JobState {
    /// All states, in the order of the database type.
    pub const ALL: [Self; 8] = [
        Self::Scheduled,
        Self::Available,
        Self::Running,
        Self::WaitingExternal,
        Self::Retryable,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
    ];

    /// The label of this state in the database, in JSON and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Available => "available",
            Self::Running => "running",
            Self::WaitingExternal => "waiting_external",
            Self::Retryable => "retryable",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the job has ended. An operator can revive it, nothing else will.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// The only plane in which a job of this state may be.
    pub const fn plane(self) -> Plane {
        match self {
            Self::Scheduled | Self::Retryable => Plane::Deferred,
            Self::Available
            | Self::Running
            | Self::WaitingExternal
            | Self::Completed
            | Self::Failed
            | Self::Cancelled => Plane::Hot,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| UnknownState { found: text.to_owned() })
    }
}

/// A text that names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{found}` is not a job state; the states are scheduled, available, running, waiting_external, retryable, \
     completed, failed, cancelled"
)]
pub struct UnknownState {
    found: String,
}

#[cfg(test)]
mod tests;
