//! What a handler may fail with, and what the failure means for the job.
//!
//! [`JobError`] converts from any error, so `?` works in a handler as it does elsewhere. An error is worth another
//! attempt unless the handler says otherwise: [`ResultExt::fatal`] ends the job, [`ResultExt::retry_after`] chooses
//! the delay. Like `anyhow::Error` it does not implement [`std::error::Error`] itself: that is what makes the
//! conversion from every other error possible.

use std::error::Error as StdError;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use awa_model::error_text;

use crate::failure::Error;
use crate::panics;

type Source = Box<dyn StdError + Send + Sync>;

/// At most this many causes of an error are recorded: a chain that loops must not hang the worker.
const CAUSES_MAX: usize = 64;

/// The failure of one attempt: an error, and what is to become of the job.
///
/// Made from any error by `?` or [`From`], or from a text: `Err("no such tile")?`. The whole chain of sources is
/// recorded in the job's errors, cut at 16 KiB.
pub struct JobError {
    next: Next,
    source: Source,
}

/// What follows a failed attempt, as far as the handler chose it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Retry,
    RetryAfter(Duration),
    Fail,
}

impl JobError {
    /// An error that ends the job: it becomes `failed` whatever attempts are left.
    pub fn fatal(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { next: Next::Fail, source: error.into() }
    }

    /// An error after which the job is tried again, with the back-off of its kind, while attempts are left.
    pub fn retryable(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { next: Next::Retry, source: error.into() }
    }

    /// The same error, but the next attempt comes `delay` from now instead of after the usual back-off.
    ///
    /// The attempt counts; a job without attempts left fails all the same.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.next = Next::RetryAfter(delay);
        self
    }

    /// Whether this error ends the job.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.next == Next::Fail
    }

    /// The error inside, if it is an `E`.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.source.downcast_ref()
    }

    pub(crate) fn into_fatal(mut self) -> Self {
        self.next = Next::Fail;
        self
    }

    pub(crate) fn next(&self) -> Next {
        self.next
    }

    /// The text to record: every cause, in the bounds of [`error_text`], whatever the error's own `Display` does.
    pub(crate) fn describe(&self) -> String {
        describe(self.source.as_ref())
    }
}

impl<E: Into<Box<dyn StdError + Send + Sync>>> From<E> for JobError {
    /// Retryable, unless it is an error of this crate that says that each attempt would meet it again.
    fn from(error: E) -> Self {
        let error = Self::retryable(error);
        let is_lasting = error.downcast_ref::<Error>().is_some_and(Error::is_lasting);
        if is_lasting { error.into_fatal() } else { error }
    }
}

impl fmt::Debug for JobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("JobError").field("next", &self.next).field("source", &self.source).finish()
    }
}

impl fmt::Display for JobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(formatter)
    }
}

/// Says, at the place where an error arises, what it means for the job.
pub trait ResultExt<T> {
    /// Makes the error end the job: `decode(&bytes).fatal()?`.
    ///
    /// # Errors
    /// The error of `self`, as a fatal [`JobError`].
    fn fatal(self) -> Result<T, JobError>;

    /// Makes the next attempt come `delay` from now: `call(&api).retry_after(MINUTE)?`.
    ///
    /// # Errors
    /// The error of `self`, as a [`JobError`] with that delay.
    fn retry_after(self, delay: Duration) -> Result<T, JobError>;
}

impl<T, E: Into<JobError>> ResultExt<T> for Result<T, E> {
    fn fatal(self) -> Result<T, JobError> {
        self.map_err(|error| error.into().into_fatal())
    }

    fn retry_after(self, delay: Duration) -> Result<T, JobError> {
        self.map_err(|error| error.into().retry_after(delay))
    }
}

/// Renders an error and its causes as `outer: cause: cause`.
///
/// A cause that the text already ends with is left out, since many errors print their source themselves.
pub(crate) fn describe(error: &(dyn StdError + 'static)) -> String {
    let mut text = String::new();
    let mut cause = Some(error);
    for _ in 0..CAUSES_MAX {
        let Some(error) = cause else { break };
        let part = display(error);
        if text.is_empty() {
            text = part;
        } else if !text.ends_with(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        cause = error.source();
    }
    error_text(&text)
}

/// Runs a `Display` that may panic.
fn display(error: &dyn StdError) -> String {
    match panics::catch(AssertUnwindSafe(|| error_text(error))) {
        Ok(text) => text,
        Err(panic) => format!("<the error could not be shown: {panic}>"),
    }
}

#[cfg(test)]
mod tests;
