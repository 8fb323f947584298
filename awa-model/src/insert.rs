//! A job on its way into the database: what to run, when and how, with every limit checked before a statement is sent.

mod invalid;

use std::{fmt, marker::PhantomData, time::Duration};

use chrono::{DateTime, Datelike, Utc};
use serde_json::Value;

pub use self::invalid::InvalidJob;
pub(crate) use self::invalid::{field, list, quoted, seconds};
use crate::{InvalidJson, JobArgs, Kind, Priority, QueueName, Unique, UniqueArgs, json, json_text, limits, name};

/// A job to be enqueued, with args of type `A`.
///
/// It starts with what [`JobArgs`] says of its kind; each method replaces one of these. Nothing is checked before
/// [`prepare`](Self::prepare), which enqueueing calls, so that a chain of methods stays a chain.
///
/// ```
/// # use std::time::Duration;
/// # use awa_model::{JobArgs, NewJob};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct SendMail { to: String }
/// # impl JobArgs for SendMail { const KIND: &'static str = "send_mail"; type Output = (); }
/// let mail = SendMail { to: "ada@example.org".to_owned() };
/// let job = NewJob::new(&mail).run_in(Duration::from_secs(60)).priority(1).tag("newsletter");
/// assert_eq!(job.prepare()?.args, r#"{"to":"ada@example.org"}"#);
///
/// let refused = NewJob::new(&mail).max_attempts(0).prepare().unwrap_err();
/// assert_eq!(refused.to_string(), "max_attempts is 0; it must be 1 to 1000");
/// # Ok::<(), awa_model::InvalidJob>(())
/// ```
#[must_use = "a job runs only once it is enqueued"]
pub struct NewJob<A> {
    args: Result<String, InvalidJson>,
    queue: String,
    priority: i16,
    due: Due,
    max_attempts: i16,
    timeout: Option<Duration>,
    tags: Vec<String>,
    metadata: Option<Value>,
    unique: Option<Unique>,
    trace_context: Option<String>,
    kind: PhantomData<fn() -> A>,
}

/// When a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// As soon as a worker is free.
    Now,
    /// Not before this time by the clock of the database.
    At(DateTime<Utc>),
    /// Not before this much time has passed, counted by the database from the start of the transaction.
    In(Duration),
}

/// What may be handed to an enqueue: args, a reference to args, or a [`NewJob`] with options.
///
/// `#[derive(JobArgs)]` implements it for the args themselves.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be enqueued",
    label = "neither args of a job nor a `NewJob`",
    note = "add `#[derive(serde::Serialize, serde::Deserialize, JobArgs)]` to the type of the args"
)]
pub trait IntoNewJob {
    /// The args of the job.
    type Args: JobArgs;

    /// The job, with the options of its kind where none were given.
    fn into_new_job(self) -> NewJob<Self::Args>;
}

impl<A: JobArgs> IntoNewJob for NewJob<A> {
    type Args = A;

    fn into_new_job(self) -> NewJob<A> {
        self
    }
}

impl<A: JobArgs> IntoNewJob for &A {
    type Args = A;

    fn into_new_job(self) -> NewJob<A> {
        NewJob::new(self)
    }
}

impl<A: JobArgs> NewJob<A> {
    /// A job with these args, due now.
    pub fn new(args: &A) -> Self {
        Self {
            args: json_text(field::ARGS, args, limits::ARGS_BYTES_MAX),
            queue: A::QUEUE.to_owned(),
            priority: A::PRIORITY,
            due: Due::Now,
            max_attempts: A::MAX_ATTEMPTS,
            timeout: A::TIMEOUT,
            tags: A::TAGS.iter().map(|tag| (*tag).to_owned()).collect(),
            metadata: None,
            unique: A::unique(),
            trace_context: None,
            kind: PhantomData,
        }
    }

    /// Checks every limit and gives what storage needs.
    ///
    /// # Errors
    /// The first field that breaks a limit, with its value and the limit. Nothing has been sent by then.
    pub fn prepare(self) -> Result<PreparedJob, InvalidJob> {
        let args = self.args?;
        let kind = Kind::new(A::KIND)?;
        let queue = QueueName::new(self.queue)?;
        let priority = Priority::new(self.priority)?;
        check_due(self.due)?;
        check_attempts(self.max_attempts)?;
        check_timeout(self.timeout)?;
        check_tags(&self.tags)?;
        check_metadata(self.metadata.as_ref())?;
        check_trace_context(self.trace_context.as_deref())?;
        if let Some(unique) = &self.unique {
            unique.check()?;
            check_unique_fields(unique, &args)?;
        }
        Ok(PreparedJob {
            kind,
            queue,
            priority,
            args,
            due: self.due,
            max_attempts: self.max_attempts,
            timeout: self.timeout,
            tags: self.tags,
            metadata: self.metadata,
            unique: self.unique,
            trace_context: self.trace_context,
        })
    }
}

impl<A> NewJob<A> {
    /// Puts it into this queue.
    pub fn queue(self, queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), ..self }
    }

    /// Sets its urgency within the queue: 1 (first) to 4 (last).
    pub fn priority(self, priority: i16) -> Self {
        Self { priority, ..self }
    }

    /// Lets it wait until this time by the clock of the database. A time in the past means now.
    pub fn run_at(self, time: DateTime<Utc>) -> Self {
        Self { due: Due::At(time), ..self }
    }

    /// Lets it wait this long, at most a thousand years. Replaces [`run_at`](Self::run_at), and the other way round.
    pub fn run_in(self, delay: Duration) -> Self {
        Self { due: Due::In(delay), ..self }
    }

    /// Sets how often it is tried, the first time included: 1 to 1000.
    pub fn max_attempts(self, attempts: i16) -> Self {
        Self { max_attempts: attempts, ..self }
    }

    /// Limits how long one attempt may take: more than zero, at most ten years.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Adds a tag, by which people find it: 1 to 128 bytes without control characters. At most 32 tags, those of its kind
    /// included.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Adds several tags.
    pub fn tags<I>(mut self, tags: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.tags.extend(tags.into_iter().map(Into::into));
        self
    }

    /// Drops the tags given so far, those of its kind included.
    pub fn without_tags(self) -> Self {
        Self { tags: Vec::new(), ..self }
    }

    /// Attaches a JSON object of your own, at most 64 KiB. Awa stores it and never looks inside.
    pub fn metadata(self, metadata: impl Into<Value>) -> Self {
        Self { metadata: Some(metadata.into()), ..self }
    }

    /// Makes it a duplicate of a job that is like it by this rule.
    pub fn unique(self, unique: Unique) -> Self {
        Self { unique: Some(unique), ..self }
    }

    /// Adds it in any case, whatever its kind says about uniqueness.
    pub fn not_unique(self) -> Self {
        Self { unique: None, ..self }
    }

    /// Hands on the trace that it belongs to (a W3C `traceparent`), at most 1 KiB.
    pub fn trace_context(self, context: impl Into<String>) -> Self {
        Self { trace_context: Some(context.into()), ..self }
    }
}

impl<A: JobArgs> fmt::Debug for NewJob<A> {
    // Without the args: they may hold what must not be logged.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("NewJob")
            .field("kind", &A::KIND)
            .field("queue", &self.queue)
            .field("priority", &self.priority)
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

/// A job that kept every limit, as storage takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedJob {
    /// What it is.
    pub kind: Kind,
    /// Where it queues.
    pub queue: QueueName,
    /// How urgent it is there.
    pub priority: Priority,
    /// Its args as compact JSON that jsonb accepts, at most 1 MiB.
    pub args: String,
    /// When it may run.
    pub due: Due,
    /// How often it is tried: 1 to 1000.
    pub max_attempts: i16,
    /// How long one attempt may take: more than zero, at most ten years.
    pub timeout: Option<Duration>,
    /// Its tags: at most 32.
    pub tags: Vec<String>,
    /// The user's own: an object of at most 64 KiB.
    pub metadata: Option<Value>,
    /// What makes it a duplicate.
    pub unique: Option<Unique>,
    /// The trace it belongs to.
    pub trace_context: Option<String>,
}

impl PreparedJob {
    /// Replaces the tags.
    ///
    /// # Errors
    /// When they break a limit; nothing is changed then.
    pub fn set_tags(&mut self, tags: Vec<String>) -> Result<(), InvalidJob> {
        check_tags(&tags)?;
        self.tags = tags;
        Ok(())
    }

    /// Replaces the metadata.
    ///
    /// # Errors
    /// When it breaks a limit; nothing is changed then.
    pub fn set_metadata(&mut self, metadata: Option<Value>) -> Result<(), InvalidJob> {
        check_metadata(metadata.as_ref())?;
        self.metadata = metadata;
        Ok(())
    }

    /// Replaces the trace context.
    ///
    /// # Errors
    /// When it breaks a limit; nothing is changed then.
    pub fn set_trace_context(&mut self, context: Option<String>) -> Result<(), InvalidJob> {
        check_trace_context(context.as_deref())?;
        self.trace_context = context;
        Ok(())
    }
}

pub(crate) fn check_due(due: Due) -> Result<(), InvalidJob> {
    let years = limits::RUN_AT_YEARS;
    match due {
        Due::At(time) if !years.contains(&time.year()) => {
            let allowed = format!("in the years {} to {}", years.start(), years.end());
            Err(InvalidJob::out_of_range(field::RUN_AT, format!("in the year {}", time.year()), allowed))
        }
        Due::In(delay) if delay > limits::RUN_IN_MAX => {
            Err(InvalidJob::out_of_range(field::RUN_IN, seconds(delay), "0 seconds to 1000 years"))
        }
        Due::Now | Due::At(_) | Due::In(_) => Ok(()),
    }
}

pub(crate) fn check_attempts(attempts: i16) -> Result<(), InvalidJob> {
    let range = limits::MAX_ATTEMPTS;
    if range.contains(&attempts) {
        return Ok(());
    }
    let allowed = format!("{} to {}", range.start(), range.end());
    Err(InvalidJob::out_of_range(field::MAX_ATTEMPTS, attempts.to_string(), allowed))
}

pub(crate) fn check_timeout(timeout: Option<Duration>) -> Result<(), InvalidJob> {
    // The database counts in microseconds: anything shorter would arrive there as zero.
    let shortest = Duration::from_micros(1);
    match timeout {
        Some(timeout) if !(shortest..=limits::TIMEOUT_MAX).contains(&timeout) => {
            let allowed = "1 microsecond to 10 years";
            Err(InvalidJob::out_of_range(field::TIMEOUT, seconds(timeout), allowed))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn check_tags(tags: &[String]) -> Result<(), InvalidJob> {
    if tags.len() > limits::TAGS_MAX {
        let allowed = format!("at most {} tags", limits::TAGS_MAX);
        return Err(InvalidJob::out_of_range(field::TAGS, format!("{} tags", tags.len()), allowed));
    }
    tags.iter().try_for_each(|tag| name::check(field::TAG, tag)).map_err(InvalidJob::from)
}

pub(crate) fn check_metadata(metadata: Option<&Value>) -> Result<(), InvalidJob> {
    let Some(metadata) = metadata else {
        return Ok(());
    };
    if !metadata.is_object() {
        return Err(InvalidJob::out_of_range(field::METADATA, json::kind_of(metadata), "an object"));
    }
    json::check(field::METADATA, metadata)?;
    let (bytes, max) = (json::size(metadata), limits::METADATA_BYTES_MAX);
    if bytes > max {
        return Err(InvalidJson::TooLarge { root: field::METADATA, bytes, max }.into());
    }
    Ok(())
}

fn check_unique_fields(unique: &Unique, args: &str) -> Result<(), InvalidJob> {
    let UniqueArgs::Fields(fields) = &unique.args else {
        return Ok(());
    };
    let has_one =
        json::top_level_keys(args).is_some_and(|keys| fields.iter().any(|field| keys.contains(field.as_str())));
    if has_one {
        return Ok(());
    }
    let allowed = "names of fields, of which the args have at least one";
    Err(InvalidJob::out_of_range(field::UNIQUE_ARGS, list(fields), allowed))
}

fn check_trace_context(context: Option<&str>) -> Result<(), InvalidJob> {
    let Some(context) = context else {
        return Ok(());
    };
    let max = limits::TRACE_CONTEXT_BYTES_MAX;
    if context.len() > max {
        let found = format!("{} bytes", context.len());
        return Err(InvalidJob::out_of_range(field::TRACE_CONTEXT, found, format!("at most {max} bytes")));
    }
    if context.chars().any(char::is_control) {
        return Err(InvalidJob::out_of_range(field::TRACE_CONTEXT, quoted(context), "free of control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
