//! How the duties of maintenance are doing: what each did last, as its process told it, and what waits for it, as the tables show.

use std::time::Duration;

use awa_model::WorkerId;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::span;

/// A duty. What it tells of itself is a renewal of the lease old: a third of the leader's term, 5 s unless set otherwise.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct DutyStatus {
    /// Its name.
    pub name: String,
    /// Whether the process that leads told this, in its term.
    pub is_led: bool,
    /// That process leads, and leaves this duty out.
    pub is_left_out: bool,
    /// Who told this; `None` where it never ran.
    pub holder: Option<WorkerId>,
    /// In which term; `None` for a tick.
    pub term: Option<i64>,
    /// Passes that ended well, in this term or tick.
    pub passes: u64,
    /// Rows, batches or segments that they changed.
    pub changed: u64,
    /// Passes that have failed since the last that ended well.
    pub failures: u64,
    /// When the last pass began. Later than `ended_at`: it goes on.
    pub began_at: Option<DateTime<Utc>>,
    /// When the last pass ended, well or not.
    pub ended_at: Option<DateTime<Utc>>,
    /// How long that one took.
    #[serde(deserialize_with = "span")]
    pub took: Option<Duration>,
    /// What that one changed; `None` if it failed.
    pub last_changed: Option<u64>,
    /// Whether it left nothing that could be done at once; `None` if it failed.
    pub is_caught_up: Option<bool>,
    /// When the next pass was to begin; `None` after a tick.
    pub next_at: Option<DateTime<Utc>>,
    /// When a pass failed last, in whatever term.
    pub failed_at: Option<DateTime<Utc>>,
    /// With what.
    pub error: Option<String>,
    /// Of the audit: how far it is.
    pub walk: Option<Walk>,
    /// What waits for it; `None` where nothing can.
    pub backlog: Option<Backlog>,
    /// Its next pass was due more than two minutes ago, or it has told nothing since somebody was elected so long ago; or its backlog
    /// has waited for longer than two minutes: an hour for ring, claims and retention.
    pub is_late: bool,
}

/// How far the audit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Walk {
    /// The segment that it walks through; -1 for the parked rows.
    pub segment: i16,
    /// The job behind which it goes on.
    pub after: i64,
    /// When it last reached the end of all segments.
    pub ended_at: Option<DateTime<Utc>>,
    /// Bugs that it found, in this term or tick.
    pub finds: u64,
}

/// What waits for a duty: jobs, schedules, callbacks, segments or claimed batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Backlog {
    /// How many.
    pub waiting: u64,
    /// Whether that is all of them.
    pub is_all: bool,
    /// Since when the first of them has been waiting for the duty.
    pub since: Option<DateTime<Utc>>,
}
