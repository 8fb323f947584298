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
#[derive(Debug, Default)]
pub struct JobEdit {
    queue: Option<String>,
    priority: Option<i16>,
    due: Option<Due>,
    args: Option<Result<String, InvalidJson>>,
    max_attempts: Option<i16>,
    timeout: Option<Option<Duration>>,
    tags: Option<Vec<String>>,
    metadata: Option<Option<Value>>,
}

impl JobEdit {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts it into this queue, at the end of its lane.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        Self { queue: Some(queue.into()), ..self }
    }

    /// Its urgency within the queue: 1 (first) to 4 (last).
    pub fn priority(self, priority: i16) -> Self {
        Self { priority: Some(priority), ..self }
    }

    /// Lets it wait until this time. A time in the past means now; a retryable job stays retryable.
    pub fn run_at(self, time: DateTime<Utc>) -> Self {
        Self { due: Some(Due::At(time)), ..self }
    }

    /// Lets it wait this long from now, at most a thousand years.
    pub fn run_in(self, delay: Duration) -> Self {
        Self { due: Some(Due::In(delay)), ..self }
    }

    /// Gives it other args, at most 1 MiB as JSON. Its unique key stays that of the args it was enqueued with.
    pub fn args<A: Serialize + ?Sized>(self, args: &A) -> Self {
        Self { args: Some(json_text(field::ARGS, args, limits::ARGS_BYTES_MAX)), ..self }
    }

    /// How often it is tried, the attempts that it has had included: 1 to 1000.
    pub fn max_attempts(self, attempts: i16) -> Self {
        Self { max_attempts: Some(attempts), ..self }
    }

    /// Limits how long one attempt may take, from the next one on.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(Some(timeout)), ..self }
    }

    /// Lets an attempt take as long as it likes.
    pub fn no_timeout(self) -> Self {
        Self { timeout: Some(None), ..self }
    }

    /// Replaces all its tags.
    pub fn tags<I>(self, tags: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        Self { tags: Some(tags.into_iter().map(Into::into).collect()), ..self }
    }

    /// Replaces its metadata by this JSON object, at most 64 KiB.
    pub fn metadata(self, metadata: impl Into<Value>) -> Self {
        Self { metadata: Some(Some(metadata.into())), ..self }
    }

    /// Takes its metadata away.
    pub fn no_metadata(self) -> Self {
        Self { metadata: Some(None), ..self }
    }

    /// Checks every limit and gives what `awa.edit` takes: the changes as the text of a JSON object.
    ///
    /// # Errors
    /// The first field that breaks a limit, with its value and the limit. Nothing has been sent by then.
    pub fn prepare(self) -> Result<String, InvalidJob> {
        let mut changes = Changes::default();
        if let Some(args) = self.args {
            changes.set_text(field::ARGS, args?)?;
        }
        if let Some(queue) = self.queue {
            changes.set("queue", &QueueName::new(queue)?)?;
        }
        if let Some(priority) = self.priority {
            changes.set("priority", &Priority::new(priority)?.get())?;
        }
        if let Some(due) = self.due {
            check_due(due)?;
            match due {
                Due::Now => changes.set(field::RUN_IN, &0)?,
                Due::At(time) => changes.set(field::RUN_AT, &time.to_rfc3339_opts(SecondsFormat::Micros, true))?,
                Due::In(delay) => changes.set(field::RUN_IN, &delay.as_secs_f64())?,
            }
        }
        if let Some(attempts) = self.max_attempts {
            check_attempts(attempts)?;
            changes.set(field::MAX_ATTEMPTS, &attempts)?;
        }
        if let Some(timeout) = self.timeout {
            check_timeout(timeout)?;
            changes.set(field::TIMEOUT, &timeout.map(|timeout| timeout.as_secs_f64()))?;
        }
        if let Some(tags) = self.tags {
            check_tags(&tags)?;
            changes.set(field::TAGS, &tags)?;
        }
        if let Some(metadata) = self.metadata {
            check_metadata(metadata.as_ref())?;
            changes.set(field::METADATA, &metadata)?;
        }
        Ok(changes.into_text())
    }
}

/// The fields that change, each as the text of its new value: numbers that Rust has no type for stay what they are.
#[derive(Default)]
struct Changes(BTreeMap<&'static str, Box<RawValue>>);

impl Changes {
    fn set<T: Serialize + ?Sized>(&mut self, field: &'static str, value: &T) -> Result<(), InvalidJob> {
        self.set_text(field, json_text(field, value, limits::ARGS_BYTES_MAX)?)
    }

    fn set_text(&mut self, field: &'static str, text: String) -> Result<(), InvalidJob> {
        let value = RawValue::from_string(text);
        self.0.insert(field, value.map_err(|source| InvalidJson::Unserializable { root: field, source })?);
        Ok(())
    }

    fn into_text(self) -> String {
        let fields: Vec<_> = self.0.iter().map(|(field, value)| format!("\"{field}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }
}
