//! Why a job was not accepted: the field, what it held, and what it may hold.

use std::time::Duration;

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
    pub(crate) const UNIQUE_ARGS: &str = "unique_by.args";
    pub(crate) const UNIQUE_PERIOD: &str = "unique_by.period";
    pub(crate) const UNIQUE_STATES: &str = "unique_by.states";
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

/// A text as errors repeat it: in quotes, escaped as in JSON, which the functions of the database can do as well.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Texts as errors repeat them.
pub(crate) fn list<S: AsRef<str>>(texts: &[S]) -> String {
    let quoted: Vec<_> = texts.iter().map(|text| quoted(text.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// A span of time as errors repeat it.
pub(crate) fn seconds(span: Duration) -> String {
    let (whole, nanos) = (span.as_secs(), span.subsec_nanos());
    let digits = format!("{nanos:09}");
    match digits.trim_end_matches('0') {
        "" => format!("{whole} seconds"),
        fraction => format!("{whole}.{fraction} seconds"),
    }
}
