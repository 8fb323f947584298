//! A claimed job: the lease, and what the handler may want to know.

use std::time::Duration;

use awa_model::{JobId, Kind, Priority, QueueName, RunLease};
use chrono::{DateTime, Utc};

use crate::{
    Error,
    lease::{Lease, Location},
};

/// A job that this process has just claimed.
#[derive(Debug)]
pub struct Claimed {
    /// Proof of the claim.
    pub lease: Lease,
    /// Its kind; one of those that the process claims.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// Its priority.
    pub priority: Priority,
    /// This attempt, counted from 1.
    pub attempt: i16,
    /// Attempts allowed in all.
    pub max_attempts: i16,
    /// How often the job was snoozed.
    pub snoozes: i32,
    /// The arguments, as JSON text: decoded once, by the handler.
    pub args: String,
    /// What the producer wrote beside the arguments.
    pub metadata: Option<serde_json::Value>,
    /// Labels.
    pub tags: Vec<String>,
    /// W3C trace context of the producer.
    pub trace_context: Option<String>,
    /// What an earlier attempt reported last.
    pub progress: Option<serde_json::Value>,
    /// When the job was enqueued.
    pub created_at: DateTime<Utc>,
    /// When it was due.
    pub run_at: DateTime<Utc>,
    /// When this attempt was claimed.
    pub attempted_at: DateTime<Utc>,
    /// When this attempt has to have ended, if the job has a timeout.
    pub deadline_at: Option<DateTime<Utc>>,
    /// How long an attempt may take.
    pub timeout: Option<Duration>,
    /// Why the row cannot be understood: a handler must not run on it. `metadata` or `progress` is `None` then, and stays
    /// as it is in the database.
    pub unreadable: Option<String>,
}

/// A row as `awa.claim` answers it.
pub(super) struct ClaimedRow {
    pub(super) id: i64,
    pub(super) run_lease: i64,
    pub(super) segment: i16,
    pub(super) tuple: String,
    pub(super) seq: i64,
    pub(super) priority: i16,
    pub(super) queue: QueueName,
    pub(super) kind: Kind,
    pub(super) attempt: i16,
    pub(super) max_attempts: i16,
    pub(super) snoozes: i32,
    pub(super) args: String,
    pub(super) metadata: Option<String>,
    pub(super) tags: Option<Vec<Option<String>>>,
    pub(super) trace_context: Option<String>,
    pub(super) progress: Option<String>,
    pub(super) created_at: DateTime<Utc>,
    pub(super) run_at: DateTime<Utc>,
    pub(super) attempted_at: DateTime<Utc>,
    pub(super) deadline_at: Option<DateTime<Utc>>,
    pub(super) timeout_seconds: Option<f64>,
}

impl ClaimedRow {
    /// The same, in checked types.
    ///
    /// # Errors
    ///
    /// If the row holds what no producer of ours could have written. The row then stays claimed, and rescue settles it.
    pub(super) fn into_claimed(self) -> Result<Claimed, Error> {
        let unreadable = |column, value: &dyn std::fmt::Display| Error::Unreadable {
            relation: "awa.jobs_hot",
            column,
            value: value.to_string(),
        };
        let location = Location::parse(self.segment, &self.tuple).ok_or_else(|| unreadable("ctid", &self.tuple))?;
        let mut unreadable_document = None;
        let mut document = |column: &str, text: Option<String>| {
            let value = serde_json::from_str(&text?);
            value
                .map_err(|error| unreadable_document = Some(format!("the {column} of the job cannot be read: {error}")))
                .ok()
        };
        let (metadata, progress) = (document("metadata", self.metadata), document("progress", self.progress));
        Ok(Claimed {
            lease: Lease::new(JobId::new(self.id), RunLease::new(self.run_lease), location),
            kind: self.kind,
            queue: self.queue,
            priority: Priority::new(self.priority).map_err(|_| unreadable("priority", &self.priority))?,
            attempt: self.attempt,
            max_attempts: self.max_attempts,
            snoozes: self.snoozes,
            args: self.args,
            metadata,
            tags: self.tags.unwrap_or_default().into_iter().flatten().collect(),
            trace_context: self.trace_context,
            progress,
            created_at: self.created_at,
            run_at: self.run_at,
            attempted_at: self.attempted_at,
            deadline_at: self.deadline_at,
            timeout: self.timeout_seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            unreadable: unreadable_document,
        })
    }
}
