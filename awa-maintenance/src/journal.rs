//! What the duties of this process did, kept in memory until it is told with the next renewal of the lease.
//!
//! Costs a duty two short locks a pass and the database nothing: what is told goes along with a statement that is sent anyway.
//! A term starts a new journal, so that nobody takes what an earlier leader did for what this one does.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use awa_storage::leader::{DutyReport, PassReport, WalkReport};
use tokio::time::Instant;

use crate::{Duty, Error, Next, Pass, duty::Walk};

/// The journal of one process.
#[derive(Debug, Default)]
pub(crate) struct Journal(Mutex<Vec<Entry>>);

#[derive(Debug)]
struct Entry {
    name: &'static str,
    left_out: bool,
    /// Counts what happened, so that what happens while a report is on its way is told by the next one.
    news: u64,
    told: u64,
    passes: u64,
    changed: u64,
    failures: u64,
    began: Option<Instant>,
    ended: Option<Ended>,
    failed: Option<(Instant, String)>,
    walk: Option<Walk>,
}

#[derive(Clone, Copy, Debug)]
struct Ended {
    at: Instant,
    took: Duration,
    changed: Option<u64>,
    is_caught_up: Option<bool>,
    next_in: Duration,
}

/// What is new in a journal.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) reports: Vec<DutyReport>,
    heard: Vec<(&'static str, u64)>,
}

impl Journal {
    /// A journal of these duties, and of those that this process leaves out.
    pub(crate) fn new(
        duties: impl IntoIterator<Item = &'static str>,
        left_out: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let done = duties.into_iter().map(|name| Entry::new(name, false));
        let left_out = left_out.into_iter().map(|name| Entry::new(name, true));
        Self(Mutex::new(done.chain(left_out).collect()))
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, duty: &dyn Duty, write: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.entries().iter_mut().find(|entry| entry.name == duty.name()) {
            write(entry);
            entry.news += 1;
        }
    }

    /// A new term: what was before it is not of it.
    pub(crate) fn begin_term(&self) {
        for entry in self.entries().iter_mut() {
            *entry = Entry::new(entry.name, entry.left_out);
        }
    }

    pub(crate) fn began(&self, duty: &dyn Duty) {
        self.note(duty, |entry| entry.began = Some(Instant::now()));
    }

    /// A pass ended well.
    pub(crate) fn passed(&self, duty: &dyn Duty, pass: Pass) {
        let walk = duty.walk();
        self.note(duty, |entry| {
            entry.walk = walk;
            entry.pass(pass);
        });
    }

    /// A pass failed, and is repeated after `pause`.
    pub(crate) fn failed(&self, duty: &dyn Duty, error: &Error, pause: Duration) {
        let error = error.to_string();
        self.note(duty, |entry| entry.fail(error, pause));
    }

    /// What has happened that was not told yet.
    pub(crate) fn news(&self) -> News {
        let now = Instant::now();
        let entries = self.entries();
        let new = || entries.iter().filter(|entry| entry.news > entry.told);
        News {
            reports: new().map(|entry| entry.report(now)).collect(),
            heard: new().map(|entry| (entry.name, entry.news)).collect(),
        }
    }

    /// All of it, from a process that does not say when it comes again.
    pub(crate) fn of_tick(&self) -> Vec<DutyReport> {
        let mut reports = self.news().reports;
        for ended in reports.iter_mut().filter_map(|report| report.ended.as_mut()) {
            ended.next_in = None;
        }
        reports
    }

    /// It has been told.
    pub(crate) fn told(&self, news: &News) {
        let mut entries = self.entries();
        for (name, told) in &news.heard {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.name == *name) {
                entry.told = *told;
            }
        }
    }
}

impl Entry {
    fn new(name: &'static str, left_out: bool) -> Self {
        Self {
            name,
            left_out,
            news: u64::from(left_out),
            told: 0,
            passes: 0,
            changed: 0,
            failures: 0,
            began: None,
            ended: None,
            failed: None,
            walk: None,
        }
    }

    fn pass(&mut self, pass: Pass) {
        let changed = u64::try_from(pass.changed).unwrap_or(u64::MAX);
        self.passes += 1;
        self.changed = self.changed.saturating_add(changed);
        self.failures = 0;
        let is_caught_up = pass.next != Next::Now;
        self.end(Some(changed), Some(is_caught_up), pass.next.pause());
    }

    fn fail(&mut self, error: String, pause: Duration) {
        self.failures += 1;
        self.failed = Some((Instant::now(), error));
        self.end(None, None, pause);
    }

    fn end(&mut self, changed: Option<u64>, is_caught_up: Option<bool>, pause: Duration) {
        let at = Instant::now();
        let took = self.began.map(|began| at - began).unwrap_or_default();
        self.ended = Some(Ended { at, took, changed, is_caught_up, next_in: pause });
    }

    fn report(&self, now: Instant) -> DutyReport {
        DutyReport {
            name: self.name,
            left_out: self.left_out,
            passes: self.passes,
            changed: self.changed,
            failures: self.failures,
            began: self.began.map(|began| now - began),
            ended: self.ended.map(|ended| PassReport {
                ago: now - ended.at,
                took: ended.took,
                changed: ended.changed,
                is_caught_up: ended.is_caught_up,
                next_in: Some(ended.next_in),
            }),
            failed: self.failed.as_ref().map(|(at, error)| (now - *at, error.clone())),
            walk: self.walk.map(|walk| WalkReport {
                segment: walk.at.segment(),
                after: walk.at.after(),
                ended: walk.ended.map(|ended| now - ended),
                finds: u64::try_from(walk.finds).unwrap_or(u64::MAX),
            }),
        }
    }
}

#[cfg(test)]
mod tests;
