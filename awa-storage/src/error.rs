//! What can go wrong between this crate and the database. The only place that knows SQLSTATEs.
//!
//! Expected answers are values ([`Guarded::Lost`](crate::Guarded::Lost), [`Inserted::Duplicate`](awa_model::Inserted));
//! an `Error` is a surprise.

use awa_model::{InvalidJob, JobId};

/// Errors of the storage layer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The job breaks a limit; nothing was written.
    #[error(transparent)]
    InvalidJob(#[from] InvalidJob),

    /// A setting cannot have that value; nothing was changed.
    #[error("{0}")]
    InvalidSetting(String),

    /// The database answered with an error, or did not answer.
    #[error("database: {0}")]
    Database(#[source] sqlx::Error),

    /// A prepared statement was gone, or another one stood under its name: a pooler is in between that lends sessions and
    /// does not know prepared statements. What the statement was to do was not done.
    #[error(
        "the connection leads through a pooler that does not keep prepared statements: use PgBouncer 1.21 or newer with \
         max_prepared_statements above 0, session pooling, or a direct connection: {0}"
    )]
    StatementsNotKept(#[source] sqlx::Error),

    /// The schema could not be installed, or does not fit this version.
    #[error(transparent)]
    Schema(#[from] awa_migrations::Error),

    /// A value in the database is not one that this version can read.
    #[error("{relation}.{column} holds {value:?}, which this version cannot read")]
    Unreadable {
        /// The relation read.
        relation: &'static str,
        /// Its column.
        column: &'static str,
        /// The value found.
        value: String,
    },

    /// The database has no schema of Awa, or one without the functions of this version; nothing was written.
    #[error("awa is not installed in this database, or too old: run `awa migrate`, or call `awa_worker::migrate`: {0}")]
    NotInstalled(#[source] sqlx::Error),

    /// A job whose rule is to fail on a conflict met another that holds its unique key; nothing was written.
    #[error("job {holder} holds the unique key")]
    Duplicate {
        /// The job that holds it.
        holder: JobId,
    },

    /// The same, where the other is an earlier job of the same call, which nobody has seen and which has no id.
    #[error("jobs[{index}]: jobs[{earlier}] of the same call holds the unique key")]
    DuplicateInCall {
        /// The place of the job that was refused, from 0.
        index: usize,
        /// The place of the one that is like it.
        earlier: usize,
    },

    /// Others took and gave back the same unique key too often while it was looked up; nothing was written.
    #[error("a unique key changed hands too often to be taken or looked up")]
    UniqueKeyContended,
}

/// `invalid_parameter_value`-like classes that a retry of the same statement cannot mend are not listed: transient is what
/// may pass when the same statement is sent once more.
const TRANSIENT: [&str; 10] = [
    "40001", // serialization_failure
    "40P01", // deadlock_detected
    LOCK_NOT_AVAILABLE,
    "57014", // query_canceled: a statement timeout
    "57P01", // admin_shutdown
    "57P02", // crash_shutdown
    "57P03", // cannot_connect_now
    "57P05", // idle_session_timeout
    "25P04", // transaction_timeout
    "25006", // read_only_sql_transaction: connected to a standby during a failover
];

/// Raised by the database function `awa.take_unique_keys`.
const UNIQUE_KEY_CONTENDED: &str = "AWA01";

/// Raised by the database where a value breaks a limit.
const INVALID_PARAMETER_VALUE: &str = "22023";

/// Raised by the database functions that enqueue; the detail is the id of the holder.
const DUPLICATE: &str = "AWA02";

/// What a statement meets where there is no schema of ours: schema, function, relation.
const NOT_INSTALLED: [&str; 3] = ["3F000", "42883", "42P01"];

/// A prepared statement that does not exist, and one that exists already: names are this side's, one after the other, so
/// somebody else's statements are in the same session.
const STATEMENTS_NOT_KEPT: [&str; 2] = ["26000", "42P05"];

/// Classes of SQLSTATE that are transient as a whole: the connection, and resources (disk, memory, connections).
const TRANSIENT_CLASSES: [&str; 2] = ["08", "53"];

/// `lock_not_available`.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// What another transaction causes that touches the same rows.
const CONTENTION: [&str; 4] = ["40001", "40P01", LOCK_NOT_AVAILABLE, "57014"];

impl Error {
    /// The error of a statement that takes unique keys.
    pub(crate) fn of_enqueue(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        match code.as_deref() {
            Some(UNIQUE_KEY_CONTENDED) => Self::UniqueKeyContended,
            Some(DUPLICATE) => duplicate(&error).unwrap_or(Self::Database(error)),
            Some(code) if NOT_INSTALLED.contains(&code) => Self::NotInstalled(error),
            _ => Self::from(error),
        }
    }

    /// The error of a statement that changes a setting.
    pub(crate) fn of_setting(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(answer) if answer.code().as_deref() == Some(INVALID_PARAMETER_VALUE) => {
                Self::InvalidSetting(answer.message().to_owned())
            }
            _ => Self::of_enqueue(error),
        }
    }

    /// Whether the same statement may succeed when it is sent once more: the connection broke, the server restarts, a lock
    /// was not to be had, a deadlock was resolved. Every statement of this crate that is guarded by a lease may be repeated,
    /// also when it is unknown whether it committed.
    pub fn is_transient(&self) -> bool {
        let error = match self {
            Self::UniqueKeyContended => return true,
            Self::Database(error) => error,
            _ => return false,
        };
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::WorkerCrashed => true,
            sqlx::Error::Database(answer) => answer.code().is_some_and(|code| {
                TRANSIENT.contains(&code.as_ref()) || TRANSIENT_CLASSES.iter().any(|class| code.starts_with(class))
            }),
            _ => false,
        }
    }

    /// Whether the database was reached and another transaction was in the way: a lock was not to be had in time, a deadlock,
    /// a conflict. Unlike a lost connection, this can concern a single row of a batch.
    pub fn is_contention(&self) -> bool {
        self.sqlstate().is_some_and(|code| CONTENTION.contains(&code.as_str()))
    }

    /// Whether a lock was not to be had in time.
    pub(crate) fn is_lock_timeout(&self) -> bool {
        self.sqlstate().is_some_and(|code| code == LOCK_NOT_AVAILABLE)
    }

    /// The SQLSTATE that the database answered with (PostgreSQL documentation, appendix A), if it did.
    pub fn sqlstate(&self) -> Option<String> {
        match self {
            Self::Database(sqlx::Error::Database(answer))
            | Self::NotInstalled(sqlx::Error::Database(answer))
            | Self::StatementsNotKept(sqlx::Error::Database(answer)) => answer.code().map(std::borrow::Cow::into_owned),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
        match code.as_deref() {
            Some(code) if STATEMENTS_NOT_KEPT.contains(&code) => Self::StatementsNotKept(error),
            _ => Self::Database(error),
        }
    }
}

/// The detail of a conflict is the id of the holder, or two places: `jobs[3] jobs[1]`.
fn duplicate(error: &sqlx::Error) -> Option<Error> {
    let answer = error.as_database_error()?.try_downcast_ref::<sqlx::postgres::PgDatabaseError>()?;
    let detail = answer.detail()?;
    if let Ok(holder) = detail.parse() {
        return Some(Error::Duplicate { holder: JobId::new(holder) });
    }
    let (index, earlier) = detail.split_once(' ')?;
    let place = |text: &str| text.strip_prefix("jobs[")?.strip_suffix(']')?.parse().ok();
    Some(Error::DuplicateInCall { index: place(index)?, earlier: place(earlier)? })
}
