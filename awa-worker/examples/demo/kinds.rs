//! Names that the handlers, the database and the checks share.

use crate::jobs::{Announce, IndexFile, MergeIndex, ReachMirror, Remind, Summarise};
use awa_worker::JobArgs;

pub(crate) const INDEX_FILE: &str = IndexFile::KIND;
pub(crate) const MERGE: &str = MergeIndex::KIND;
pub(crate) const FLAKY: &str = ReachMirror::KIND;
pub(crate) const DELAYED: &str = Remind::KIND;
pub(crate) const SUMMARY: &str = Summarise::KIND;
pub(crate) const ANNOUNCE: &str = Announce::KIND;

/// Every kind, and whether a run has exactly one job of it.
pub(crate) const ALL: [(&str, bool); 6] =
    [(INDEX_FILE, false), (MERGE, true), (FLAKY, true), (DELAYED, true), (SUMMARY, true), (ANNOUNCE, true)];

/// The queue of all jobs of the demo.
pub(crate) const QUEUE: &str = "index";

/// How a job should end.
pub(crate) const COMPLETED: &str = awa_worker::JobState::Completed.as_str();

/// The tag that tells the jobs of one run from those of another.
pub(crate) fn tag(run: i64) -> String {
    format!("run-{run}")
}
