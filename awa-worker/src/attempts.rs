//! The attempts that this process holds.
//!
//! An attempt is held from the claim until its settlement is durable, or until storage said that its lease is lost, or
//! until it was given up to rescue. While it is held it is kept alive by heartbeats; that its handler has returned, or
//! does not return, makes no difference to that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use awa_model::{JobId, Kind, Priority, QueueName};
use awa_storage::fate::Fate;
use awa_storage::{Claimed, Held, Lease};
use chrono::{DateTime, Utc};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::blocked::Polled;
use crate::progress_buffer::ProgressBuffer;

/// Why an attempt was asked to stop.
///
/// All but [`TimedOut`](Self::TimedOut) and [`Shutdown`](Self::Shutdown) mean that the job is not this attempt's any more:
/// whatever the handler still returns is discarded, and what it still reports is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CancelReason {
    /// The time that one attempt may take is over.
    TimedOut,
    /// The process is shutting down and its time to drain is over. The job goes back without having spent an attempt.
    Shutdown,
    /// Another process has the job, or will have it: this one was taken for dead.
    LeaseLost,
    /// Somebody cancelled or deleted the job.
    Cancelled,
    /// A callback has ended the attempt from outside.
    Answered,
}

impl CancelReason {
    const ALL: [Self; 5] = [Self::TimedOut, Self::Shutdown, Self::LeaseLost, Self::Cancelled, Self::Answered];

    /// Whether the lease is gone, so that nothing the attempt does counts any more.
    #[must_use]
    pub fn is_gone(self) -> bool {
        !matches!(self, Self::TimedOut | Self::Shutdown)
    }

    /// The reason that lies in what became of the attempt.
    pub(crate) fn of(fate: Fate) -> Self {
        match fate {
            Fate::Cancelled | Fate::Deleted => Self::Cancelled,
            Fate::Answered => Self::Answered,
            _ => Self::LeaseLost,
        }
    }

    fn code(self) -> u8 {
        let place = Self::ALL.iter().position(|other| *other == self).unwrap_or_default();
        u8::try_from(place + 1).unwrap_or(u8::MAX)
    }

    fn read(code: u8) -> Option<Self> {
        usize::from(code).checked_sub(1).and_then(|place| Self::ALL.get(place)).copied()
    }
}

/// The job as it was claimed, without the lease and the args: each of those has an owner of its own.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) kind: Kind,
    pub(crate) queue: QueueName,
    pub(crate) priority: Priority,
    pub(crate) attempt: i16,
    pub(crate) max_attempts: i16,
    pub(crate) snoozes: i32,
    pub(crate) metadata: Option<Value>,
    pub(crate) tags: Vec<String>,
    pub(crate) trace_context: Option<String>,
    pub(crate) progress: Option<Value>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) run_at: DateTime<Utc>,
    pub(crate) attempted_at: DateTime<Utc>,
    pub(crate) deadline_at: Option<DateTime<Utc>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) unreadable: Option<String>,
}

/// One attempt: the job as it was claimed, and what has become of it in this process.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) held: Held,
    pub(crate) facts: Facts,
    /// The right to settle. Gone once somebody has said how the attempt ended.
    lease: Mutex<Option<Lease>>,
    progress: OnceLock<Arc<ProgressBuffer>>,
    progress_bytes_max: usize,
    cancelled: CancellationToken,
    /// The code of the reason; 0 while there is none.
    reason: AtomicU8,
    pub(crate) polled: Polled,
    /// When it arrived here: for durations in this process.
    pub(crate) since: Instant,
    /// The handler has asked to complete the job in a transaction of its own, which may or may not have ended.
    completes_itself: AtomicBool,
}

impl Attempt {
    /// Takes a claimed job apart: the attempt, and the args as JSON.
    pub(crate) fn of(claimed: Claimed, progress_bytes_max: usize) -> (Self, String) {
        let attempt = Self {
            held: claimed.lease.held(),
            facts: Facts {
                kind: claimed.kind,
                queue: claimed.queue,
                priority: claimed.priority,
                attempt: claimed.attempt,
                max_attempts: claimed.max_attempts,
                snoozes: claimed.snoozes,
                metadata: claimed.metadata,
                tags: claimed.tags,
                trace_context: claimed.trace_context,
                progress: claimed.progress,
                created_at: claimed.created_at,
                run_at: claimed.run_at,
                attempted_at: claimed.attempted_at,
                deadline_at: claimed.deadline_at,
                timeout: claimed.timeout,
                unreadable: claimed.unreadable,
            },
            lease: Mutex::new(Some(claimed.lease)),
            progress: OnceLock::new(),
            progress_bytes_max,
            cancelled: CancellationToken::new(),
            reason: AtomicU8::new(0),
            polled: Polled::default(),
            since: Instant::now(),
            completes_itself: AtomicBool::new(false),
        };
        (attempt, claimed.args)
    }

    pub(crate) fn job_id(&self) -> JobId {
        self.held.job_id()
    }

    /// The buffer of what the handler reports. Made at first use: a job that reports nothing costs nothing.
    pub(crate) fn progress(&self) -> &Arc<ProgressBuffer> {
        self.progress
            .get_or_init(|| Arc::new(ProgressBuffer::new(self.facts.progress.as_ref(), self.progress_bytes_max)))
    }

    /// The buffer, if the handler has used it.
    pub(crate) fn reported(&self) -> Option<&Arc<ProgressBuffer>> {
        self.progress.get()
    }

    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancelled
    }

    /// Tells the handler to stop. The first reason stays, but for one that says more: that the lease is gone.
    pub(crate) fn cancel(&self, reason: CancelReason) {
        // Failing means that the reason that is there stays.
        let _ = self.reason.fetch_update(Ordering::AcqRel, Ordering::Acquire, |code| match CancelReason::read(code) {
            Some(first) if first.is_gone() || !reason.is_gone() => None,
            _ => Some(reason.code()),
        });
        self.cancelled.cancel();
    }

    pub(crate) fn cancel_reason(&self) -> Option<CancelReason> {
        CancelReason::read(self.reason.load(Ordering::Acquire))
    }

    /// Notes that the handler is about to complete the job in a transaction of its own.
    pub(crate) fn completes_itself(&self) {
        self.completes_itself.store(true, Ordering::Release);
    }

    /// Whether the handler may have completed the job. Its row may be locked by the handler then, and if it no longer runs
    /// that is most likely no loss.
    pub(crate) fn may_be_complete(&self) -> bool {
        self.completes_itself.load(Ordering::Acquire)
    }

    /// Takes the right to say how this attempt ended: the lease, for the first caller only.
    ///
    /// The handler's return, its timeout, a lost lease and the end of a drain may come at once; one of them counts.
    pub(crate) fn take_lease(&self) -> Option<Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether somebody has taken that right. The row may then be settled at any moment, and no beat will find it running.
    pub(crate) fn is_answered(&self) -> bool {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// The lease is gone: stop the handler, and take no answer from it.
    fn lose(&self, reason: CancelReason) {
        // Gone, so that nobody answers with it.
        let _: Option<Lease> = self.take_lease();
        self.cancel(reason);
    }
}

/// All attempts held, by job: two leases on one job cannot both be valid.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    held: Mutex<HashMap<JobId, Entry>>,
    /// Told whenever the last one goes.
    emptied: Notify,
}

#[derive(Debug)]
struct Entry {
    attempt: Arc<Attempt>,
    beaten: Instant,
}

impl Attempts {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Entry>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds attempts that were just claimed; the claim was their first sign of life.
    ///
    /// A job that is held already was rescued and claimed again: the older lease is lost.
    pub(crate) fn hold<'a>(&self, attempts: impl IntoIterator<Item = &'a Arc<Attempt>>) {
        let beaten = Instant::now();
        let mut lost = Vec::new();
        let mut held = self.lock();
        for attempt in attempts {
            let entry = Entry { attempt: Arc::clone(attempt), beaten };
            lost.extend(held.insert(attempt.job_id(), entry));
        }
        drop(held);
        for older in lost {
            older.attempt.lose(CancelReason::LeaseLost);
        }
    }

    /// Lets go of attempts whose end is durable.
    pub(crate) fn release<'a>(&self, attempts: impl IntoIterator<Item = &'a Arc<Attempt>>) {
        let mut held = self.lock();
        for attempt in attempts {
            Self::remove(&mut held, attempt);
        }
        self.tell_if_empty(&held);
    }

    /// Storage said that this lease is lost: the handler is told why, and what it answers is discarded.
    pub(crate) fn lose(&self, attempt: &Arc<Attempt>, reason: CancelReason) {
        {
            let mut held = self.lock();
            Self::remove(&mut held, attempt);
            self.tell_if_empty(&held);
        }
        attempt.lose(reason);
    }

    /// Removes this attempt, and not a newer one on the same job.
    fn remove(held: &mut HashMap<JobId, Entry>, attempt: &Arc<Attempt>) {
        let id = attempt.job_id();
        if held.get(&id).is_some_and(|entry| Arc::ptr_eq(&entry.attempt, attempt)) {
            held.remove(&id);
        }
    }

    fn tell_if_empty(&self, held: &HashMap<JobId, Entry>) {
        if held.is_empty() {
            self.emptied.notify_waiters();
        }
    }

    /// The attempts whose last sign of life is at least `age` old.
    pub(crate) fn due(&self, age: Duration) -> Vec<Arc<Attempt>> {
        let now = Instant::now();
        let due = |entry: &&Entry| now.duration_since(entry.beaten) >= age;
        self.lock().values().filter(due).map(|entry| Arc::clone(&entry.attempt)).collect()
    }

    /// Notes that the database has these attempts' signs of life, sent at `at`.
    pub(crate) fn beaten(&self, attempts: &[Arc<Attempt>], at: Instant) {
        let mut held = self.lock();
        for attempt in attempts {
            if let Some(entry) = held.get_mut(&attempt.job_id()) {
                entry.beaten = entry.beaten.max(at);
            }
        }
    }

    /// All attempts held now.
    pub(crate) fn all(&self) -> Vec<Arc<Attempt>> {
        self.select(|_| true)
    }

    /// Those of the attempts held now that `wanted` picks, which should be quick: it is asked under the lock.
    pub(crate) fn select(&self, wanted: impl Fn(&Attempt) -> bool) -> Vec<Arc<Attempt>> {
        let wanted = |entry: &&Entry| wanted(&entry.attempt);
        self.lock().values().filter(wanted).map(|entry| Arc::clone(&entry.attempt)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Resolves when no attempt is held.
    pub(crate) async fn emptied(&self) {
        loop {
            let told = self.emptied.notified();
            tokio::pin!(told);
            // Listening begins before the look, so that an end in between is heard.
            told.as_mut().enable();
            if self.lock().is_empty() {
                return;
            }
            told.await;
        }
    }
}
