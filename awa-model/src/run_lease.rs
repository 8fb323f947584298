//! The fencing number of an attempt. It counts the claims of a job over its whole life and never falls, so a worker that
//! was taken for dead and comes back cannot write over its successor: the row carries another number by then.
//!
//! `attempt` cannot do this. A snooze or a shutdown gives the attempt back and an operator's retry starts at zero again,
//! so two workers can hold "attempt 3" of one job; no two ever hold the same lease.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which claim of a job an attempt belongs to.
///
/// Together with the job id it names one attempt for ever. Zero means that the job was never claimed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct RunLease(i64);

impl RunLease {
    /// The lease of a job that was never claimed.
    pub const UNCLAIMED: Self = Self(0);

    /// Wraps the number that the database assigned.
    pub const fn new(value: i64) -> Self {
        Self(value)
    }

    /// The number as the database stores it.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RunLease {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
