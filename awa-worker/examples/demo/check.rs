//! The verdict: what the run left behind, held against a direct computation and against the promises of the queue. Pure,
//! so that each way in which a run can be wrong is a test of three lines.

use crate::{facts::Facts, kinds, total::Total};
use chrono::{DateTime, Utc};
use serde_json::Value;
use std::collections::HashMap;

/// What has to come out.
pub(crate) struct Expected {
    /// Path and facts of each file job, in order of its number.
    pub(crate) files: Vec<(String, Facts)>,
    /// What a worker held when it was killed; none was killed if this is `None`.
    pub(crate) killed: Option<Vec<Orphan>>,
}

/// An attempt that died with its worker.
#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct Orphan {
    pub(crate) id: i64,
    pub(crate) run_lease: i64,
    /// Files that the merge had checkpointed; zero for every other kind.
    pub(crate) checkpoint: i32,
}

/// A job as the run left it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: i64,
    pub(crate) kind: String,
    pub(crate) state: String,
    pub(crate) attempt: i64,
    pub(crate) run_lease: i64,
    pub(crate) snoozes: i64,
    pub(crate) rescues: i64,
    pub(crate) failures: i64,
    pub(crate) run_at: DateTime<Utc>,
    pub(crate) attempted_at: Option<DateTime<Utc>>,
    pub(crate) finalized_at: Option<DateTime<Utc>>,
    pub(crate) last_error: Option<String>,
    pub(crate) result: Option<Value>,
}

/// Everything that the run left behind.
pub(crate) struct Found {
    pub(crate) jobs: Vec<Seen>,
    /// The application's own table, by number of the file job.
    pub(crate) files: HashMap<i32, (String, Facts)>,
    /// How often the unique job's handler ran.
    pub(crate) announcements: i64,
}

/// Every difference, in words; empty if the run is as it should be.
pub(crate) fn differences(expected: &Expected, found: &Found) -> Vec<String> {
    let mut reasons = Vec::new();
    census(expected, found, &mut reasons);
    for job in &found.jobs {
        reasons
            .extend(job_differences(job, expected).into_iter().map(|what| format!("{} {}: {what}", job.kind, job.id)));
    }
    rescues(expected, found, &mut reasons);
    files(expected, found, &mut reasons);
    results(expected, found, &mut reasons);
    reasons
}

/// As many jobs of each kind as were enqueued, no fewer and no more.
fn census(expected: &Expected, found: &Found, reasons: &mut Vec<String>) {
    for (kind, singular) in kinds::ALL {
        let wanted = if singular { 1 } else { expected.files.len() };
        let there = found.jobs.iter().filter(|job| job.kind == kind).count();
        if there != wanted {
            reasons.push(format!("{there} jobs of kind {kind}, expected {wanted}"));
        }
    }
}

/// What one job alone can tell.
fn job_differences(job: &Seen, expected: &Expected) -> Vec<String> {
    let mut reasons = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            reasons.push(what);
        }
    };
    if job.state != kinds::COMPLETED {
        let why = job.last_error.as_deref().unwrap_or("no error recorded");
        must(false, format!("is {} instead of {} ({why})", job.state, kinds::COMPLETED));
        return reasons;
    }
    let ended_badly = job.failures + job.rescues;
    must(job.attempt == ended_badly + 1, format!("attempt {} after {ended_badly} that ended badly", job.attempt));
    // Each claim raises the lease; each ends as an attempt that counts or as a snooze that was given back.
    must(
        job.run_lease == job.attempt + job.snoozes,
        format!("lease {} for {} attempts and {} snoozes", job.run_lease, job.attempt, job.snoozes),
    );
    let died = expected.killed.iter().flatten().filter(|orphan| orphan.id == job.id).count();
    must(
        usize::try_from(job.rescues) == Ok(died),
        format!("rescued {} times, its worker died {died} times", job.rescues),
    );
    match job.kind.as_str() {
        kinds::FLAKY => must(
            job.attempt >= 3 && (job.failures == 2 || job.rescues > 0),
            format!("worked at attempt {} after {} failures, expected two", job.attempt, job.failures),
        ),
        _ => must(job.failures == 0, format!("failed {} times: {:?}", job.failures, job.last_error)),
    }
    match job.kind.as_str() {
        kinds::SUMMARY => must(job.snoozes > 0, "never had to wait for the index".to_owned()),
        _ => must(job.snoozes == 0, format!("snoozed {} times", job.snoozes)),
    }
    must(job.attempted_at >= Some(job.run_at), "ran before it was due".to_owned());
    reasons
}

/// The killed worker held something, and all of it was taken up again under a higher lease.
fn rescues(expected: &Expected, found: &Found, reasons: &mut Vec<String>) {
    let Some(orphans) = &expected.killed else { return };
    if orphans.is_empty() {
        reasons.push("the killed worker held no job, so no rescue was seen".to_owned());
    }
    for orphan in orphans {
        match found.jobs.iter().find(|job| job.id == orphan.id) {
            None => reasons.push(format!("job {} is gone since its worker was killed", orphan.id)),
            Some(job) if job.run_lease <= orphan.run_lease => {
                reasons.push(format!("job {} kept the lease of its dead attempt", orphan.id));
            }
            Some(_) => {}
        }
    }
}

/// The application's own table says what a direct computation says.
fn files(expected: &Expected, found: &Found, reasons: &mut Vec<String>) {
    for (item, (path, facts)) in (0..).zip(&expected.files) {
        match found.files.get(&item) {
            None => reasons.push(format!("file {item} ({path}) is not in the index")),
            Some((there, _)) if there != path => reasons.push(format!("file {item} is {there}, expected {path}")),
            Some((_, there)) if there != facts => {
                reasons.push(format!("file {item} ({path}) is indexed as {there:?}, computed directly {facts:?}"));
            }
            Some(_) => {}
        }
    }
    if found.files.len() > expected.files.len() {
        reasons.push(format!("{} files in the index, expected {}", found.files.len(), expected.files.len()));
    }
}

/// What the merge and the summary answered, and how often the unique job ran.
fn results(expected: &Expected, found: &Found, reasons: &mut Vec<String>) {
    let mut total = Total::default();
    for (path, facts) in &expected.files {
        total.add(path, facts);
    }
    let total = serde_json::to_value(total).unwrap_or_default();
    for job in &found.jobs {
        let answer = job.result.as_ref().and_then(|result| result.get("total"));
        if matches!(job.kind.as_str(), kinds::MERGE | kinds::SUMMARY) && answer != Some(&total) {
            reasons.push(format!("{} answered {answer:?}, computed directly {total}", job.kind));
        }
        if job.kind == kinds::MERGE {
            let resumed = job.result.as_ref().and_then(|result| result.get("resumed_at")?.as_i64()).unwrap_or(-1);
            let stored = expected.killed.iter().flatten().find(|orphan| orphan.id == job.id);
            let stored = stored.map_or(0, |orphan| i64::from(orphan.checkpoint));
            if resumed < stored {
                reasons.push(format!("merge resumed at file {resumed}, its checkpoint said {stored}"));
            }
        }
        // An attempt may die before its handler began, so a rescued job need not have run once for each attempt.
        if job.kind == kinds::ANNOUNCE && !(1..=job.rescues + 1).contains(&found.announcements) {
            reasons.push(format!("the unique job ran {} times", found.announcements));
        }
    }
}

#[cfg(test)]
mod tests;
