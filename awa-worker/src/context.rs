//! What a handler knows of its job, and what it can say while it runs.

use std::sync::Arc;

use awa_model::{JobId, Kind, Priority, Progress, QueueName, RunLease, WorkerId};
use awa_storage::Guarded;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::attempts::{Attempt, CancelReason};
use crate::failure::Error;
use crate::progress_buffer::Snapshot;
use crate::registry::SharedData;
use crate::store::Store;

/// The attempt that a handler is running. Cheap to clone; may be moved into tasks of the handler's own.
#[derive(Clone)]
pub struct JobContext {
    attempt: Arc<Attempt>,
    services: Arc<Services>,
}

/// What all attempts of a process share.
pub(crate) struct Services {
    pub(crate) worker: WorkerId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) data: SharedData,
    /// Where statements run that must not be cut off when a handler's future is dropped.
    pub(crate) runtime: Handle,
}

impl JobContext {
    pub(crate) fn new(attempt: Arc<Attempt>, services: Arc<Services>) -> Self {
        Self { attempt, services }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn attempt_held(&self) -> &Arc<Attempt> {
        &self.attempt
    }

    /// The job.
    #[must_use]
    pub fn job_id(&self) -> JobId {
        self.attempt.job_id()
    }

    /// The number that tells this run from every other of the same job. It never falls; see `awa_model::RunLease`.
    #[must_use]
    pub fn run_lease(&self) -> RunLease {
        self.attempt.held.run_lease()
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.attempt.facts.kind
    }

    /// The queue that the job was claimed from.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.attempt.facts.queue
    }

    /// The priority; 1 comes first.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.attempt.facts.priority
    }

    /// The number of this attempt, from 1. Snoozes and shutdowns give theirs back, so it may repeat.
    #[must_use]
    pub fn attempt(&self) -> i16 {
        self.attempt.facts.attempt
    }

    /// How many attempts the job may have.
    #[must_use]
    pub fn max_attempts(&self) -> i16 {
        self.attempt.facts.max_attempts
    }

    /// Whether a failure now would be final.
    #[must_use]
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.max_attempts()
    }

    /// How often the job has been snoozed.
    #[must_use]
    pub fn snoozes(&self) -> i32 {
        self.attempt.facts.snoozes
    }

    /// When the job was enqueued, by the database's clock.
    #[must_use]
    pub fn created_at(&self) -> DateTime<Utc> {
        self.attempt.facts.created_at
    }

    /// When the job was due.
    #[must_use]
    pub fn run_at(&self) -> DateTime<Utc> {
        self.attempt.facts.run_at
    }

    /// When this attempt was claimed, by the database's clock.
    #[must_use]
    pub fn attempted_at(&self) -> DateTime<Utc> {
        self.attempt.facts.attempted_at
    }

    /// When this attempt will be ended if it still runs; `None` without a timeout.
    #[must_use]
    pub fn deadline_at(&self) -> Option<DateTime<Utc>> {
        self.attempt.facts.deadline_at
    }

    /// The tags given when the job was enqueued.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.attempt.facts.tags
    }

    /// The metadata given when the job was enqueued.
    #[must_use]
    pub fn metadata(&self) -> Option<&Value> {
        self.attempt.facts.metadata.as_ref()
    }

    /// The trace context given when the job was enqueued.
    #[must_use]
    pub fn trace_context(&self) -> Option<&str> {
        self.attempt.facts.trace_context.as_deref()
    }

    /// The process that runs this attempt.
    #[must_use]
    pub fn worker_id(&self) -> WorkerId {
        self.services.worker
    }

    /// The value of this type given to the builder.
    #[must_use]
    pub fn data<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.services.data.get()
    }

    /// Whether the attempt has been asked to stop.
    ///
    /// The handler is never cut off while the process lives: it keeps its slot until it returns, so a long loop should
    /// look here now and then.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.attempt.cancellation().is_cancelled()
    }

    /// Why the attempt has been asked to stop, if it has.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.attempt.cancel_reason()
    }

    /// Resolves when the attempt is asked to stop; at once if it has been.
    pub async fn cancelled(&self) {
        self.attempt.cancellation().cancelled().await;
    }

    /// The token behind [`Self::cancelled`], to be handed on.
    #[must_use]
    pub fn cancellation_token(&self) -> CancellationToken {
        self.attempt.cancellation().clone()
    }

    /// The progress of the job: what earlier attempts left, and what this one reports.
    #[must_use]
    pub fn progress(&self) -> ProgressHandle<'_> {
        ProgressHandle { context: self }
    }

    /// What [`Self::set_checkpoint`] last kept under this key, in this attempt or an earlier one.
    ///
    /// # Errors
    /// When what is kept is not a `T`.
    pub fn checkpoint<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, CheckpointError> {
        let kept = self.attempt.progress().read(|progress| progress.checkpoint(key).cloned());
        let Some(value) = kept else { return Ok(None) };
        serde_json::from_value(value).map_err(|source| CheckpointError { key: key.to_owned(), source })
    }

    /// Keeps a value for later attempts, as the entry `key` of the progress metadata.
    ///
    /// It is stored with the next heartbeat or with the end of the attempt; a crash before that loses it. Follow with
    /// `progress().flush().await` where that matters.
    ///
    /// # Errors
    /// When the value does not encode, or the progress would become too large; nothing is changed then.
    pub fn set_checkpoint<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), Error> {
        Ok(self.attempt.progress().change(|progress| progress.set_checkpoint(key, value))?)
    }
}

impl std::fmt::Debug for JobContext {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("JobContext")
            .field("job_id", &self.job_id())
            .field("kind", &self.kind())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}

/// A checkpoint that cannot be read as the type asked for.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint {key:?} is not of the type asked for")]
pub struct CheckpointError {
    key: String,
    source: serde_json::Error,
}

/// Reads and reports progress. What is reported waits in memory; see [`Self::flush`].
#[derive(Debug, Clone, Copy)]
pub struct ProgressHandle<'a> {
    context: &'a JobContext,
}

impl ProgressHandle<'_> {
    /// The latest progress, stored or not.
    #[must_use]
    pub fn get(&self) -> Progress {
        self.context.attempt.progress().latest()
    }

    /// Reports how far the job is. `percent` is clamped to 0..=100, a long message is cut; the metadata stays.
    ///
    /// # Errors
    /// When the message cannot be stored; nothing is changed then.
    pub fn set(&self, percent: impl TryInto<i64>, message: impl Into<String>) -> Result<(), Error> {
        // Conversions are the caller's code: not under the lock, which the heartbeat needs too.
        let (percent, message) = (percent.try_into().unwrap_or(i64::MAX), message.into());
        Ok(self.context.attempt.progress().change(|progress| progress.set(percent, message))?)
    }

    /// Merges the entries of a JSON object into the metadata. Top-level entries replace those of the same name.
    ///
    /// # Errors
    /// When it is not an object, holds what the database cannot store, or makes the progress too large; nothing is
    /// changed then.
    pub fn update_metadata(&self, entries: impl Into<Value>) -> Result<(), Error> {
        let entries = entries.into();
        Ok(self.context.attempt.progress().change(|progress| progress.update_metadata(entries))?)
    }

    /// Stores everything reported so far. On `Ok` it is in the database.
    ///
    /// Without it, progress is stored with the next heartbeat and with the end of the attempt. Dropping this future does
    /// not stop the write.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when the attempt is no longer this process's or has ended, and [`Error::Storage`] when the database could
    /// not be asked; the progress is kept and told again later.
    pub async fn flush(&self) -> Result<(), Error> {
        let attempt = &self.context.attempt;
        let Some(buffer) = attempt.reported() else { return Ok(()) };
        let wanted = buffer.generation();
        loop {
            let returned = buffer.returned();
            tokio::pin!(returned);
            returned.as_mut().enable();
            // The settlement carries what was reported before; written after that, this could be overwritten by it.
            if attempt.is_answered() {
                return Err(Error::LeaseLost);
            }
            if buffer.is_stored(wanted) {
                return Ok(());
            }
            match buffer.snapshot() {
                Some(snapshot) => self.context.store(snapshot).await?,
                None => returned.await,
            }
        }
    }
}

impl JobContext {
    /// Writes a snapshot on a task of its own: cut off half way, it might arrive after a newer one.
    async fn store(&self, snapshot: Snapshot) -> Result<(), Error> {
        let (attempt, store) = (Arc::clone(&self.attempt), Arc::clone(&self.services.store));
        let writing = self.services.runtime.spawn(async move {
            let answer = store.flush_progress(&attempt.held, snapshot.json()).await?;
            match answer {
                Guarded::Applied(()) => {
                    snapshot.stored();
                    Ok(())
                }
                Guarded::Lost => {
                    let fate = store.fate(&attempt.held).await.ok().flatten();
                    attempt.cancel(fate.map_or(CancelReason::LeaseLost, CancelReason::of));
                    Err(Error::LeaseLost)
                }
            }
        });
        // A task that was cut off by the end of its runtime has stored nothing that we know of.
        writing.await.unwrap_or(Err(Error::Stopped { part: "runtime" }))
    }
}
