//! What an attempt that went well asks for next. Errors are the other half: they carry retry and failure, and belong to
//! the runtime.

use std::time::Duration;

use crate::CallbackId;

/// What a handler asks for when it returns `Ok`.
#[must_use = "it takes effect only when the handler returns it"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T = ()> {
    /// The job is done; this is what it produced.
    Complete(T),
    /// Run it again after this long. The attempt does not count and no error is recorded.
    Snooze(Duration),
    /// Call it off for this reason.
    Cancel(String),
    /// The handler has completed the job already, in a transaction of its own. Made by `complete_in` of its context; where the
    /// job turns out not to be completed, the attempt has failed.
    Committed,
    /// Let it wait, without a worker, until the outside answers this callback or its time is over.
    WaitFor(CallbackId),
}

impl Outcome {
    /// The job is done and produced nothing.
    pub const fn complete() -> Self {
        Self::Complete(())
    }
}

impl<T> Outcome<T> {
    /// The job is done and produced `output`.
    pub const fn complete_with(output: T) -> Self {
        Self::Complete(output)
    }

    /// Runs the job again after `delay`, without counting the attempt. More than a thousand years count as that.
    pub const fn snooze(delay: Duration) -> Self {
        Self::Snooze(delay)
    }

    /// Calls the job off. `reason` is kept on it.
    pub fn cancel(reason: impl Into<String>) -> Self {
        Self::Cancel(reason.into())
    }

    /// Lets the job wait, without a worker, until the outside answers `callback` or its time is over. If the answer has come
    /// already, the job goes on at once.
    ///
    /// It has to be a callback that this attempt has opened: nobody could answer another one, so the attempt fails then.
    pub fn wait_for(callback: impl Into<CallbackId>) -> Self {
        Self::WaitFor(callback.into())
    }

    /// The same outcome with another output.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Self::Complete(output) => Outcome::Complete(change(output)),
            Self::Snooze(delay) => Outcome::Snooze(delay),
            Self::Cancel(reason) => Outcome::Cancel(reason),
            Self::Committed => Outcome::Committed,
            Self::WaitFor(callback) => Outcome::WaitFor(callback),
        }
    }
}

/// What a handler of a job that produces `T` may return in `Ok`: the bare `T`, or an [`Outcome`].
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}` for a job that produces `{T}`",
    label = "neither `{T}` nor `Outcome<{T}>`",
    note = "set what the job produces with `#[job(output = …)]` on its args"
)]
pub trait IntoOutcome<T> {
    /// The outcome that it stands for.
    fn into_outcome(self) -> Outcome<T>;
}

impl<T> IntoOutcome<T> for Outcome<T> {
    fn into_outcome(self) -> Self {
        self
    }
}

impl<T> IntoOutcome<T> for T {
    fn into_outcome(self) -> Outcome<T> {
        Outcome::Complete(self)
    }
}
