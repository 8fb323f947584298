//! What a process tells of the duties of maintenance that it does. For people alone: nothing is decided by it.
//!
//! Times go as what has passed since: the database's clock makes times of them. Whatever is in a report, it can be written.

use std::time::Duration;

use serde_json::{Value, json};

/// Characters of an error that are kept. The database cuts at the same place.
const ERROR_CHARS_MAX: usize = 1000;

/// What one duty did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DutyReport {
    /// Its name.
    pub name: &'static str,
    /// The process leads, and does not do this duty.
    pub left_out: bool,
    /// Passes that ended well, in this term or tick.
    pub passes: u64,
    /// What they changed.
    pub changed: u64,
    /// Passes that have failed since the last that ended well.
    pub failures: u64,
    /// How long ago the last pass began.
    pub began: Option<Duration>,
    /// The last pass that ended.
    pub ended: Option<PassReport>,
    /// How long ago a pass failed last, and with what.
    pub failed: Option<(Duration, String)>,
    /// Of the audit: how far it is.
    pub walk: Option<WalkReport>,
}

/// The last pass that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// How long ago.
    pub ago: Duration,
    /// How long it took.
    pub took: Duration,
    /// What it changed; `None` if it failed.
    pub changed: Option<u64>,
    /// Whether it left nothing that could be done at once; `None` if it failed.
    pub is_caught_up: Option<bool>,
    /// How long after its end the next one was to begin; `None` if there is none.
    pub next_in: Option<Duration>,
}

/// How far the audit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkReport {
    /// The segment that it walks through; -1 for the parked rows.
    pub segment: i16,
    /// The job behind which it goes on.
    pub after: i64,
    /// How long ago it reached the end of all segments.
    pub ended: Option<Duration>,
    /// Bugs that it found.
    pub finds: u64,
}

pub(super) fn json(reports: &[DutyReport]) -> Value {
    reports.iter().map(one).collect()
}

fn one(report: &DutyReport) -> Value {
    let mut told = json!({
        "name": report.name,
        "left_out": report.left_out,
        "passes": whole(report.passes),
        "changed": whole(report.changed),
        "failures": whole(report.failures),
        "began_ago": report.began.map(seconds),
    });
    if let Some(ended) = report.ended {
        told["ended_ago"] = json!(seconds(ended.ago));
        told["took"] = json!(seconds(ended.took));
        told["last_changed"] = json!(ended.changed.map(whole));
        told["is_caught_up"] = json!(ended.is_caught_up);
        told["next_in"] = json!(ended.next_in.map(seconds));
    }
    if let Some((ago, error)) = &report.failed {
        told["failed_ago"] = json!(seconds(*ago));
        told["error"] = json!(kept(error));
    }
    if let Some(walk) = report.walk {
        told["walk_segment"] = json!(walk.segment);
        told["walk_after"] = json!(walk.after);
        told["walked_ago"] = json!(walk.ended.map(seconds));
        told["finds"] = json!(whole(walk.finds));
    }
    told
}

/// As a column can hold it: without U+0000, and not too long.
fn kept(error: &str) -> String {
    error
        .chars()
        .take(ERROR_CHARS_MAX)
        .map(|each| if each == '\0' { char::REPLACEMENT_CHARACTER } else { each })
        .collect()
}

/// What the column can hold.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What the calendar can hold on either side of now.
fn seconds(span: Duration) -> f64 {
    const LONGEST: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);
    span.min(LONGEST).as_secs_f64()
}
