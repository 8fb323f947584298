//! What an operator changes about a job, with every limit checked before a statement is sent.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::insert::{check_attempts, check_due, check_metadata, check_tags, check_timeout, field};
use crate::{Due, InvalidJob, InvalidJson, Priority, QueueName, json_text, limits};

/// Changes to one job: each method names one field and its new value; what is not named stays as it is.
///
/// Of a job that waits (scheduled, available, retryable) everything here can be changed; of any other `max_attempts`, tags
/// and metadata. The limits are those of a new job.
///
/// ```
/// # use awa_model::JobEdit;
/// let edit = JobEdit::new().priority(1).no_timeout();
/// assert_eq!(edit.prepare()?, r#"{"priority":1,"timeout":null}"#);
///
/// let refused = JobEdit::new().priority(9).prepare().unwrap_err();
/// assert_eq!(refused.to_string(), "priority is 9; it must be 1 to 4");
/// # Ok::<(), awa_model::InvalidJob>(())
/// ```
#[must_use = "nothing changes before it is sent"]
#[derive(Debug)]
pub struct JobEdit {
    /// The changes so far, or what is wrong with the first bad one.
    changes: Result<Changes, InvalidJob>,
}

impl Default for JobEdit {
    fn default() -> Self {
        Self { changes: Ok(Changes::default()) }
    }
}

impl JobEdit {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts it into this queue, at the end of its lane.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        self.with(|changes| changes.set("queue", &QueueName::new(queue.into())?))
    }

    /// Its urgency within the queue: 1 (first) to 4 (last).
    pub fn priority(self, priority: i16) -> Self {
        self.with(|changes| changes.set("priority", &Priority::new(priority)?.get()))
    }

    /// Lets it wait until this time. A time in the past means now; a retryable job stays retryable.
    pub fn run_at(self, time: DateTime<Utc>) -> Self {
        self.with(|changes| {
            check_due(Due::At(time))?;
            changes.0.remove(field::RUN_IN);
            changes.set(field::RUN_AT, &time.to_rfc3339_opts(SecondsFormat::Micros, true))
        })
    }

    /// Lets it wait this long from now, at most a thousand years. Replaces [`run_at`](Self::run_at), and the other way round.
    pub fn run_in(self, delay: Duration) -> Self {
        self.with(|changes| {
            check_due(Due::In(delay))?;
            changes.0.remove(field::RUN_AT);
            changes.set(field::RUN_IN, &delay.as_secs_f64())
        })
    }

    /// Gives it other args, at most 1 MiB as JSON. Its unique key stays that of the args it was enqueued with.
    pub fn args<A: Serialize + ?Sized>(self, args: &A) -> Self {
        self.with(|changes| changes.set(field::ARGS, args))
    }

    /// How often it is tried, the attempts that it has had included: 1 to 1000.
    pub fn max_attempts(self, attempts: i16) -> Self {
        self.with(|changes| {
            check_attempts(attempts)?;
            changes.set(field::MAX_ATTEMPTS, &attempts)
        })
    }

    /// Limits how long one attempt may take, from the next one on.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|changes| {
            check_timeout(Some(timeout))?;
            changes.set(field::TIMEOUT, &timeout.as_secs_f64())
        })
    }

    /// Lets an attempt take as long as it likes.
    pub fn no_timeout(self) -> Self {
        self.with(|changes| changes.set(field::TIMEOUT, &()))
    }

    /// Replaces all its tags.
    pub fn tags<I>(self, tags: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let tags: Vec<String> = tags.into_iter().map(Into::into).collect();
        self.with(|changes| {
            check_tags(&tags)?;
            changes.set(field::TAGS, &tags)
        })
    }

    /// Replaces its metadata by this JSON object, at most 64 KiB.
    pub fn metadata(self, metadata: impl Into<Value>) -> Self {
        let metadata = metadata.into();
        self.with(|changes| {
            check_metadata(Some(&metadata))?;
            changes.set(field::METADATA, &metadata)
        })
    }

    /// Takes its metadata away.
    pub fn no_metadata(self) -> Self {
        self.with(|changes| changes.set(field::METADATA, &()))
    }

    /// Gives what `awa.edit` takes: the changes as the text of a JSON object.
    ///
    /// # Errors
    /// The first field that breaks a limit, with its value and the limit. Nothing has been sent by then.
    pub fn prepare(self) -> Result<String, InvalidJob> {
        let fields: Vec<_> = self.changes?.0.iter().map(|(field, value)| format!("\"{field}\":{value}")).collect();
        Ok(format!("{{{}}}", fields.join(",")))
    }

    fn with(self, change: impl FnOnce(&mut Changes) -> Result<(), InvalidJob>) -> Self {
        let changes = self.changes.and_then(|mut changes| change(&mut changes).map(|()| changes));
        Self { changes }
    }
}

/// The fields that change, each as the text of its new value: numbers that Rust has no type for stay what they are.
#[derive(Debug, Default)]
struct Changes(BTreeMap<&'static str, Box<RawValue>>);

impl Changes {
    fn set<T: Serialize + ?Sized>(&mut self, field: &'static str, value: &T) -> Result<(), InvalidJob> {
        let text = json_text(field, value, limits::ARGS_BYTES_MAX)?;
        let value = RawValue::from_string(text);
        self.0.insert(field, value.map_err(|source| InvalidJson::Unserializable { root: field, source })?);
        Ok(())
    }
}
