//! Why a job was not accepted: the field, what it held, and what it may hold.

use crate::{InvalidJson, InvalidName, InvalidPriority};

/// The names of the fields in errors; those of the enqueue functions of the database.
pub(crate) mod field {
    pub(crate) const ARGS: &str = "args";
    pub(crate) const MAX_ATTEMPTS: &str = "max_attempts";
    pub(crate) const METADATA: &str = "metadata";
    pub(crate) const RUN_AT: &str = "run_at";
    pub(crate) const RUN_IN: &str = "run_in";
    pub(crate) const TAG: &str = "tag";
    pub(crate) const TAGS: &str = "tags";
    pub(crate) const TIMEOUT: &str = "timeout";
    pub(crate) const TRACE_CONTEXT: &str = "trace_context";
    pub(crate) const UNIQUE_ARGS: &str = "unique.args";
    pub(crate) const UNIQUE_PERIOD: &str = "unique.period";
    pub(crate) const UNIQUE_STATES: &str = "unique.states";
}

/// A job that breaks a limit. The message names the field, its value and the limit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJob {
    /// A kind, queue or tag that cannot be one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A priority that is none.
    #[error(transparent)]
    Priority(#[from] InvalidPriority),
    /// Args or metadata that cannot be stored.
    #[error(transparent)]
    Json(#[from] InvalidJson),
    /// Any other field with a value that it must not have.
    #[error("{field} is {value}; it must be {allowed}")]
    OutOfRange {
        /// The field, by its name in the enqueue functions of the database.
        field: &'static str,
        /// What it held.
        value: String,
        /// What it may hold.
        allowed: String,
    },
}

impl InvalidJob {
    pub(crate) fn out_of_range(field: &'static str, value: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self::OutOfRange { field, value: value.into(), allowed: allowed.into() }
    }
}
