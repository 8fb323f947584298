//! The jobs that somebody waits for, and the one poller that asks for all of them.
//!
//! However many wait, a tick is one statement, and between ticks there is nothing: no connection each, no row written, no
//! LISTEN. How often a job is asked for depends on how long ago it last changed: soon at first, then at most a quarter of
//! that time late. A worker of the same client says when it has settled a watched job, so such waits end at once.
//!
//! The poller is a task that starts with the first waiter and ends with the last. It may vanish with its runtime; the
//! waiters of other runtimes are told, and start it anew in theirs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use awa_model::JobId;
use awa_storage::Error;
use awa_storage::admin::{JobStatus, statuses};
use sqlx::PgPool;
use tokio::sync::{Notify, watch};

use crate::bounded::within;
use crate::jitter;

/// Jobs that one client may wait for at once: what one tick may have to ask for.
pub(crate) const WATCHED_MAX: usize = 10_000;

/// Between two looks at one job: at least this, and this while nothing has changed for long.
const LOOK_PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A look comes late by at most one part in this many of the time since the last change.
const PATIENCE_SHARE: u32 = 4;

/// A pause is at least this many times as long as the look before it: waiting must not keep the server busy.
const PAUSE_PER_LOOK: u32 = 4;

/// How long a look may take, the wait for one of the pool's connections included.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Pauses after looks that failed: from, to.
const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Looks in a row that must miss a job before it counts as gone.
const MISSES_MAX: u32 = 2;

/// What is known of a watched job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sight {
    /// The last status seen.
    pub(crate) status: Option<Arc<JobStatus>>,
    /// It was seen, and is there no longer.
    pub(crate) gone: bool,
    /// Why nothing newer is known: the last look failed.
    pub(crate) error: Option<Arc<Error>>,
}

/// All jobs that a client waits for.
#[derive(Debug)]
pub(crate) struct Watched {
    pool: PgPool,
    state: Mutex<State>,
    /// How many jobs there are, for those who only want to know whether there is any.
    count: AtomicUsize,
    /// Told when a job joins, when the last one leaves, and when a job is due at once.
    stirred: Notify,
}

#[derive(Debug, Default)]
struct State {
    jobs: HashMap<JobId, Job>,
    /// Entries made so far: tells an entry from a later one about the same job.
    entries: u64,
    polling: bool,
}

#[derive(Debug)]
struct Job {
    entry: u64,
    sight: watch::Sender<Sight>,
    waiters: usize,
    /// When it last changed, or joined.
    stirred: Instant,
    due: Instant,
    misses: u32,
    /// Counts the hints. A look that began before the newest one says nothing about what was hinted at.
    hints: u64,
}

/// A place among those who wait for a job. Dropping it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Waiter {
    watched: Arc<Watched>,
    job: JobId,
    entry: u64,
    sight: watch::Receiver<Sight>,
}

impl Watched {
    pub(crate) fn new(pool: PgPool) -> Arc<Self> {
        Arc::new(Self { pool, state: Mutex::default(), count: AtomicUsize::new(0), stirred: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job from here on; `None` where too many are waited for. To be called inside a runtime.
    pub(crate) fn join(self: &Arc<Self>, job: JobId) -> Option<Waiter> {
        let now = Instant::now();
        let mut state = self.lock();
        if state.jobs.len() >= WATCHED_MAX && !state.jobs.contains_key(&job) {
            return None;
        }
        // What has ended may have been given another life since it was seen: who joins now gets an entry that knows nothing.
        // Those who waited before have their answer already.
        if state.jobs.get(&job).is_some_and(Job::is_over) {
            state.jobs.remove(&job);
        }
        let next = state.entries;
        let entry = state.jobs.entry(job).or_insert_with(|| Job::new(next, now));
        entry.waiters += 1;
        // Whoever joins wants to know soon, however long others have waited.
        entry.stirred = now;
        entry.due = now;
        let (sight, entry) = (entry.sight.subscribe(), entry.entry);
        state.entries += 1;
        self.count.store(state.jobs.len(), Ordering::Release);
        drop(state);
        let waiter = Waiter { watched: Arc::clone(self), job, entry, sight };
        self.keep_polling();
        self.stirred.notify_one();
        Some(waiter)
    }

    /// Sees to it that somebody polls.
    fn keep_polling(self: &Arc<Self>) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.polling, true) {
            return;
        }
        drop(state);
        tokio::spawn(poll(Poller { watched: Arc::clone(self), polls: true }));
    }

    /// These jobs were settled just now: whoever waits for one of them should look.
    pub(crate) fn settled(&self, jobs: impl IntoIterator<Item = JobId>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let now = Instant::now();
        let mut stirred = false;
        let mut state = self.lock();
        for job in jobs {
            if let Some(entry) = state.jobs.get_mut(&job) {
                entry.due = now;
                entry.hints += 1;
                stirred = true;
            }
        }
        drop(state);
        if stirred {
            self.stirred.notify_one();
        }
    }

    fn leave(&self, job: JobId, entry: u64) {
        let mut state = self.lock();
        if let Some(known) = state.jobs.get_mut(&job).filter(|known| known.entry == entry) {
            known.waiters -= 1;
            if known.waiters == 0 {
                state.jobs.remove(&job);
            }
        }
        self.count.store(state.jobs.len(), Ordering::Release);
        if state.jobs.is_empty() {
            self.stirred.notify_one();
        }
    }

    /// The jobs to ask for now: those that are due, or nearly.
    fn due(&self) -> Vec<(JobId, u64)> {
        let until = Instant::now() + LOOK_PAUSES.0 / 2;
        let state = self.lock();
        state.jobs.iter().filter(|(_, job)| job.due <= until).map(|(id, job)| (*id, job.hints)).collect()
    }

    /// Takes in what a look has found. A job that is not among it was not there.
    fn saw(&self, asked: &[(JobId, u64)], found: Vec<JobStatus>) {
        let mut found: HashMap<JobId, JobStatus> = found.into_iter().map(|status| (status.id, status)).collect();
        let now = Instant::now();
        let mut state = self.lock();
        for (id, hints) in asked {
            let Some(job) = state.jobs.get_mut(id) else { continue };
            job.saw(found.remove(id), now);
            if job.hints != *hints {
                job.due = now;
            }
        }
    }

    /// The look failed. Whether that ends a wait is for the waiter to say.
    fn failed(&self, asked: &[(JobId, u64)], error: Error, pause: Duration) {
        let error = Arc::new(error);
        let due = Instant::now() + pause;
        let mut state = self.lock();
        for (id, _) in asked {
            if let Some(job) = state.jobs.get_mut(id) {
                job.due = due;
                job.sight.send_modify(|sight| sight.error = Some(Arc::clone(&error)));
            }
        }
    }
}

impl Job {
    fn new(entry: u64, now: Instant) -> Self {
        let sight = watch::Sender::new(Sight::default());
        Self { entry, sight, waiters: 0, stirred: now, due: now, misses: 0, hints: 0 }
    }

    fn is_over(&self) -> bool {
        let sight = self.sight.borrow();
        sight.gone || sight.status.as_ref().is_some_and(|status| status.state.is_terminal())
    }

    fn saw(&mut self, status: Option<JobStatus>, now: Instant) {
        let seen = self.sight.borrow().status.is_some();
        self.misses = if status.is_some() { 0 } else { self.misses.saturating_add(1) };
        let gone = seen && self.misses >= MISSES_MAX;
        let changed = self.sight.send_if_modified(|sight| {
            let changed = status.as_ref().is_some_and(|status| differs(sight.status.as_deref(), status));
            let recovered = sight.error.take().is_some();
            let vanished = sight.gone != gone;
            sight.gone = gone;
            if changed {
                sight.status = status.map(Arc::new);
            }
            changed || recovered || vanished
        });
        if changed {
            self.stirred = now;
        }
        let pause = now.duration_since(self.stirred) / PATIENCE_SHARE;
        self.due = now + pause.clamp(LOOK_PAUSES.0, LOOK_PAUSES.1);
    }
}

/// Whether a watcher would want to hear of it.
fn differs(before: Option<&JobStatus>, now: &JobStatus) -> bool {
    before.is_none_or(|before| {
        (before.state, before.attempt, before.attempted_at) != (now.state, now.attempt, now.attempted_at)
            || before.run_at != now.run_at
            || before.progress != now.progress
            || before.error != now.error
            || before.paused != now.paused
    })
}

impl Waiter {
    /// What is known now. Later calls of [`Self::changed`] tell what is newer than this.
    pub(crate) fn sight(&mut self) -> Sight {
        self.sight.borrow_and_update().clone()
    }

    /// Resolves when something else is known than at the last [`Self::sight`].
    pub(crate) async fn changed(&mut self) {
        // Each time: a poller that vanishes tells its waiters, who come here again.
        self.watched.keep_polling();
        // The sender goes only when the end of the job has been seen, and that is the last that anybody asks for.
        let _ = self.sight.changed().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.watched.leave(self.job, self.entry);
    }
}

/// The right to poll. Dropped with its runtime, it tells the waiters, of whom one takes over.
struct Poller {
    watched: Arc<Watched>,
    polls: bool,
}

impl Poller {
    /// When the next job is due; `None` if none is waited for: then this poller has ended, and the next to join starts another.
    fn next_due(&mut self) -> Option<Instant> {
        let mut state = self.watched.lock();
        let due = state.jobs.values().map(|job| job.due).min();
        state.polling = due.is_some();
        self.polls = state.polling;
        due
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        if self.polls {
            let mut state = self.watched.lock();
            state.polling = false;
            for job in state.jobs.values() {
                job.sight.send_modify(|_| {});
            }
        }
    }
}

/// Polls until nobody waits.
async fn poll(mut poller: Poller) {
    let watched = Arc::clone(&poller.watched);
    let mut failed: u32 = 0;
    let mut rested = Instant::now();
    while let Some(due) = poller.next_due() {
        let due = due.max(rested);
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = watched.stirred.notified() => continue,
        }
        let asked = watched.due();
        let ids: Vec<JobId> = asked.iter().map(|(id, _)| *id).collect();
        let started = Instant::now();
        let found = within(LOOK_MAX, statuses(&watched.pool, &ids)).await;
        match found {
            Ok(found) => {
                failed = 0;
                rested = Instant::now() + (started.elapsed() * PAUSE_PER_LOOK).min(LOOK_PAUSES.1);
                watched.saw(&asked, found);
            }
            Err(error) => {
                tracing::warn!(%error, jobs = ids.len(), "watched jobs could not be looked at: trying again");
                let pause = (ERROR_PAUSES.0 * 2_u32.pow(failed.min(6))).min(ERROR_PAUSES.1);
                failed = failed.saturating_add(1);
                watched.failed(&asked, error, jitter::lengthened(pause));
            }
        }
    }
}

#[cfg(test)]
mod tests;
