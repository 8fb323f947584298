//! A job as its users see it: every column that means something to them, read from either plane.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::{JobId, JobState, Kind, Priority, Progress, QueueName, RunLease, WorkerId};

/// A job and all that is known about it at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Job {
    /// Its id; never reused.
    pub id: JobId,
    /// What it is.
    pub kind: Kind,
    /// Where it queues.
    pub queue: QueueName,
    /// Where it is in its life.
    pub state: JobState,
    /// How urgent it is in its queue.
    pub priority: Priority,
    /// Which attempt this is or was; 0 before the first. Goes back when an attempt does not count.
    pub attempt: i16,
    /// How often it is tried.
    pub max_attempts: i16,
    /// How often it was claimed, ever.
    pub run_lease: RunLease,
    /// How often its handler put it off.
    pub snoozes: i32,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub created_at: DateTime<Utc>,
    /// When it was last claimed.
    pub attempted_at: Option<DateTime<Utc>>,
    /// Who runs it; only while it runs, or has completed.
    pub attempted_by: Option<WorkerId>,
    /// The last sign of life of its attempt; only while it runs, or has completed.
    pub heartbeat_at: Option<DateTime<Utc>>,
    /// When its attempt is taken away; only where it has a timeout.
    pub deadline_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finalized_at: Option<DateTime<Utc>>,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// Its arguments. Kept as text: a producer may have stored numbers that Rust has no type for.
    pub args: Box<RawValue>,
    /// The user's own.
    pub metadata: Option<Box<RawValue>>,
    /// By which people find it.
    pub tags: Vec<String>,
    /// How far it has come.
    pub progress: Option<Progress>,
    /// What it produced.
    pub result: Option<Box<RawValue>>,
    /// What went wrong, newest last; at most 20.
    pub errors: Vec<AttemptError>,
    /// How many older errors were dropped.
    pub errors_dropped: i32,
    /// The trace it belongs to.
    pub trace_context: Option<String>,
}

impl Job {
    /// The args as `A`.
    ///
    /// # Errors
    /// Args that are not of that shape.
    pub fn args_as<A: DeserializeOwned>(&self) -> Result<A, serde_json::Error> {
        serde_json::from_str(self.args.get())
    }

    /// What it produced as `T`; `None` if it produced nothing, or has not completed.
    ///
    /// # Errors
    /// A result that is not of that shape.
    pub fn result_as<T: DeserializeOwned>(&self) -> Result<Option<T>, serde_json::Error> {
        self.result.as_deref().map(|result| serde_json::from_str(result.get())).transpose()
    }
}

/// Something that went wrong in the life of a job.
///
/// Read leniently: a hand that edits the list in the database can make entries poorer, but never unreadable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttemptError {
    /// When it was recorded, by the clock of the database.
    pub at: Option<DateTime<Utc>>,
    /// In which attempt.
    pub attempt: i16,
    /// Under which lease.
    pub lease: RunLease,
    /// On which worker, where one is known.
    pub worker: Option<WorkerId>,
    /// Who noticed.
    pub source: ErrorSource,
    /// What it was; at most 16 KiB.
    pub error: String,
}

/// Who noticed that something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorSource {
    /// The handler: it returned an error, panicked or ran out of time.
    Handler,
    /// Maintenance: the worker died, fell silent or overran the deadline, or nobody answered a callback in time.
    Rescue,
    /// A person.
    Operator,
    /// The outside, by its answer to a callback.
    Callback,
    /// Something that this version does not know.
    Unknown,
}

impl AttemptError {
    /// The list that a row carries; empty where there is none.
    pub fn list_from_json(stored: Option<&Value>) -> Vec<Self> {
        match stored {
            Some(Value::Array(entries)) => entries.iter().map(Self::from_json).collect(),
            None | Some(Value::Null) => Vec::new(),
            Some(other) => vec![Self::from_json(other)],
        }
    }

    fn from_json(entry: &Value) -> Self {
        let text = |key: &str| entry.get(key).and_then(Value::as_str);
        let number = |key: &str| entry.get(key).and_then(Value::as_i64).unwrap_or_default();
        Self {
            at: text("at").and_then(|at| at.parse().ok()),
            attempt: i16::try_from(number("attempt")).unwrap_or_default(),
            lease: RunLease::new(number("lease")),
            worker: text("worker").and_then(|worker| worker.parse().ok()).map(WorkerId::new),
            source: text("source").map_or(ErrorSource::Unknown, ErrorSource::from_text),
            // An entry without a text still says something: show it as it is.
            error: text("error").map_or_else(|| entry.to_string(), str::to_owned),
        }
    }
}

impl ErrorSource {
    fn from_text(text: &str) -> Self {
        match text {
            "handler" => Self::Handler,
            "rescue" => Self::Rescue,
            "operator" => Self::Operator,
            "callback" => Self::Callback,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests;
