//! What the calls of this crate can fail with.

use crate::config::BuildError;

/// An error of the client or the worker.
///
/// `Debug` prints the message and its causes, each once: what a `main` that returns the error shows has to be readable.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client was put together wrongly; all mistakes at once.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The job cannot be enqueued as it is; nothing was written.
    #[error(transparent)]
    InvalidJob(#[from] awa_model::InvalidJob),
    /// One of many jobs cannot be enqueued as it is; nothing was written.
    #[error("jobs[{index}].{invalid}")]
    InvalidJobAt {
        /// Its place among the jobs that were given, from 0.
        index: usize,
        /// What is wrong with it.
        invalid: awa_model::InvalidJob,
    },
    /// The schedule cannot be as it is; nothing was written.
    #[error(transparent)]
    InvalidSchedule(awa_model::InvalidSchedule),
    /// The database refused or could not be reached.
    #[error(transparent)]
    Storage(#[from] awa_storage::Error),
    /// What was reported as progress cannot be stored; the progress is as it was.
    #[error(transparent)]
    Progress(#[from] awa_model::ProgressError),
    /// What the handler produced cannot be stored.
    #[error(transparent)]
    InvalidResult(#[from] awa_model::InvalidJson),
    /// A callback cannot be waited for that long; nothing was opened.
    #[error("the timeout of a callback is {timeout:?}; it must be 1 millisecond to 1000 years")]
    CallbackTimeout {
        /// The timeout asked for.
        timeout: std::time::Duration,
    },
    /// What was to go with the answer to a callback cannot be stored; nothing was answered.
    #[error(transparent)]
    InvalidPayload(awa_model::InvalidJson),
    /// What came with the answer to a callback is not of the type asked for. As the error of a handler it fails the job for
    /// good, since another attempt would find the same.
    #[error("the payload of the callback is not of the type asked for")]
    UnfitPayload(#[source] serde_json::Error),
    /// This attempt is no longer this process's: it was rescued, cancelled or settled meanwhile.
    #[error("the lease of this attempt is lost")]
    LeaseLost,
    /// A middleware refused to enqueue; nothing was written. See [`Error::refused`].
    #[error(transparent)]
    Refused(Box<dyn std::error::Error + Send + Sync>),
    /// The client has no handlers, so there is nothing to start.
    #[error("this client has no handlers: it can enqueue, but not run jobs")]
    NothingToRun,
    /// A part of the worker stopped unexpectedly; the worker was shut down.
    #[error("the worker stopped: its {part} failed")]
    Stopped {
        /// The part that stopped.
        part: &'static str,
    },
}

impl Error {
    /// What a middleware answers that refuses to enqueue: any error of its own, or a text.
    pub fn refused(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Refused(reason.into())
    }

    /// Whether every further attempt of the job that meets this error would meet it again.
    pub(crate) const fn is_lasting(&self) -> bool {
        matches!(self, Self::UnfitPayload(_))
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&crate::error::describe(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_tells_each_cause_once() {
        let missing = awa_storage::Error::NotInstalled(sqlx::Error::Protocol("relation is missing".to_owned()));
        let shown = format!("{:?}", Error::from(missing));
        assert_eq!(shown.matches("relation is missing").count(), 1, "{shown}");
        let step = std::io::Error::other("server is gone");
        let shown = format!("{:?}", Error::from(awa_storage::Error::from(sqlx::Error::from(step))));
        assert_eq!(shown.matches("server is gone").count(), 1, "{shown}");
        let unfit = serde_json::from_str::<bool>("7").unwrap_err();
        let shown = format!("{:?}", Error::UnfitPayload(unfit));
        assert!(shown.starts_with("the payload") && shown.contains(": invalid type: integer `7`"), "{shown}");
    }
}
