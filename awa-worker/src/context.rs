//! What a handler knows of its job, and what it can say while it runs.
//!
//! What it says has modules of its own: progress and checkpoints, steps, and completing in its own transaction.

use std::sync::Arc;

use awa_model::{JobId, Kind, Priority, QueueName, RunLease, WorkerId};
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::attempts::{Attempt, CancelReason};
use crate::registry::SharedData;
use crate::store::Store;

mod completing;
mod progress;
mod steps;

pub use self::progress::{CheckpointError, ProgressHandle};
pub use self::steps::StepError;

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

    pub(crate) fn running(&self) -> &Arc<Attempt> {
        &self.attempt
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.services.store
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.services.runtime
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

    /// When the job's own timeout ends this attempt; `None` without one. A timeout of its kind or queue may end it sooner.
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

    /// Whether the job has this tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags().iter().any(|other| other == tag)
    }

    /// The metadata as a type of your own; `None` where there is none.
    ///
    /// # Errors
    /// When the metadata is not a `T`.
    pub fn metadata_as<T: DeserializeOwned>(&self) -> Result<Option<T>, MetadataError> {
        self.metadata().map(T::deserialize).transpose().map_err(MetadataError)
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

/// Metadata that cannot be read as the type asked for.
#[derive(Debug, thiserror::Error)]
#[error("the metadata of the job is not of the type asked for")]
pub struct MetadataError(#[source] serde_json::Error);
