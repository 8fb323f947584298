//! Callbacks: how a job waits for the outside.
//!
//! An attempt [opens](open) a callback, tells its id to whoever is to answer, and ends by waiting for it
//! ([`Verdict::Park`](crate::settle::Verdict::Park)). While the job waits it takes no worker and no heartbeat. The answer
//! completes the job, fails it, or resumes it; what comes with it reaches the next attempt.
//!
//! A callback is bound to the lease that opened it, and everything that ends the waiting locks the row of the job first and
//! judges it as locked. So of an answer, another answer, the timeout, an operator and a settlement exactly one takes effect,
//! and the others are told. An answer may come before the job waits: completion and failure end the attempt that runs, and
//! an answer to resume is kept until it parks.

use std::str::FromStr as _;
use std::time::Duration;

use awa_model::{CallbackId, JobId, JobState};
use chrono::{DateTime, Utc};
use sqlx::{PgExecutor, PgPool};

use crate::{Error, Guarded, Held};

/// What came of an answer to a callback.
#[must_use = "the answer may have been refused"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answered {
    /// It took effect.
    Applied {
        /// The job that waited.
        job: JobId,
        /// Its state now. `Running` where an answer to resume came before the job waits for it; `Cancelled` where another job
        /// holds the unique key that it needs to go on.
        state: JobState,
    },
    /// This very answer was given before. Repeating it is harmless.
    Unchanged {
        /// The job.
        job: JobId,
        /// Its state now.
        state: JobState,
    },
    /// Too late: the callback was answered otherwise or timed out, the job was called off or goes on under another lease, or
    /// it waits for another callback. Nothing was changed.
    Refused {
        /// The job.
        job: JobId,
        /// Its state now.
        state: JobState,
    },
    /// Somebody has the job, or the unique key that it needs, locked for more than a second. Nothing was changed: try again.
    Busy,
    /// There is no such callback, or not any more.
    NotFound,
}

/// Opens a callback for a running attempt. A job that waits for it does so for at most `timeout`, counted from now.
///
/// # Errors
///
/// If the database does not answer, or the attempt has opened [`CALLBACKS_MAX`](awa_model::limits::CALLBACKS_MAX) already.
/// Repeated after an unknown commit it opens another one, which does no harm.
pub async fn open(db: impl PgExecutor<'_>, held: &Held, timeout: Duration) -> Result<Guarded<CallbackId>, Error> {
    let row = sqlx::query_file!(
        "queries/callback/open.sql",
        held.job_id().get(),
        held.run_lease().get(),
        timeout.as_secs_f64()
    )
    .fetch_one(db)
    .await?;
    Ok(row.id.map_or(Guarded::Lost, Guarded::Applied))
}

/// What came with the answer that resumed the job last, as JSON text; `None` where nothing came, or it never was.
///
/// # Errors
///
/// If the database does not answer.
pub async fn payload(db: impl PgExecutor<'_>, job: JobId) -> Result<Option<String>, Error> {
    Ok(sqlx::query_file!("queries/callback/payload.sql", job.get()).fetch_one(db).await?.payload)
}

/// Answers that nothing is left to do: the job has completed, with `payload`, a JSON text, as its result.
///
/// # Errors
///
/// [`Error::InvalidSetting`] for a payload that is too large or nests too deep; otherwise if the database does not answer.
/// Safe to repeat.
pub async fn complete(db: impl PgExecutor<'_>, callback: CallbackId, payload: Option<&str>) -> Result<Answered, Error> {
    read(sqlx::query_file_as!(Row, "queries/callback/complete.sql", callback.get(), payload).fetch_one(db).await)
}

/// Answers that the job goes on: it is available at once, its attempt is given back, and `payload`, a JSON text, is kept for
/// the next one.
///
/// # Errors
///
/// As [`complete`].
pub async fn resume(db: impl PgExecutor<'_>, callback: CallbackId, payload: Option<&str>) -> Result<Answered, Error> {
    read(sqlx::query_file_as!(Row, "queries/callback/resume.sql", callback.get(), payload).fetch_one(db).await)
}

/// Answers that the job has failed for good. `error` is recorded, at most 16 KiB of it; progress stays.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn fail(db: impl PgExecutor<'_>, callback: CallbackId, error: &str) -> Result<Answered, Error> {
    read(sqlx::query_file_as!(Row, "queries/callback/fail.sql", callback.get(), error).fetch_one(db).await)
}

struct Row {
    job_id: Option<i64>,
    outcome: String,
    state: Option<JobState>,
}

fn read(row: Result<Row, sqlx::Error>) -> Result<Answered, Error> {
    let row = row.map_err(Error::of_setting)?;
    let job = row.job_id.map(JobId::new).zip(row.state);
    match (row.outcome.as_str(), job) {
        ("applied", Some((job, state))) => Ok(Answered::Applied { job, state }),
        ("unchanged", Some((job, state))) => Ok(Answered::Unchanged { job, state }),
        ("refused", Some((job, state))) => Ok(Answered::Refused { job, state }),
        ("busy", _) => Ok(Answered::Busy),
        ("not_found", _) => Ok(Answered::NotFound),
        _ => Err(Error::Unreadable { relation: "awa.answer_callback", column: "outcome", value: row.outcome }),
    }
}

/// Behind which callback to go on; the default starts with the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireCursor {
    last: Option<(DateTime<Utc>, CallbackId)>,
}

/// What one pass over the callbacks that are due did.
#[derive(Clone, Debug, PartialEq)]
pub struct Expired {
    /// Jobs whose waiting has ended, and their state: `retryable`; `failed` without attempts left or where the row cannot be
    /// stored otherwise; `cancelled` where another job holds the unique key that it needs.
    pub jobs: Vec<(JobId, JobState)>,
    /// Jobs that could not be changed and wait on: what they need is locked, or they cannot be changed at all.
    pub stuck: Vec<JobId>,
    /// Where to go on at once; `None` when no more are due.
    pub next: Option<ExpireCursor>,
    /// When the next one will be due; `None` when nothing waits.
    pub next_due_in: Option<Duration>,
}

/// Ends the waiting of jobs whose callback is due by the database's clock, the oldest first, at most `batch` of them.
///
/// One statement and one transaction. Two passes at once do no harm, and an answer that comes first wins.
///
/// # Errors
///
/// If the database does not answer; then the pass took effect or not. Safe to repeat.
pub async fn expire(db: impl PgExecutor<'_>, from: ExpireCursor, batch: u32) -> Result<Expired, Error> {
    let row = sqlx::query_file!(
        "queries/callback/expire.sql",
        from.last.map(|(due, _)| due),
        from.last.map(|(_, id)| id.get()),
        i32::try_from(batch).unwrap_or(i32::MAX),
    )
    .fetch_one(db)
    .await?;
    let mut expired = Expired {
        jobs: Vec::new(),
        stuck: Vec::new(),
        next: row.last_due.zip(row.last_id.map(CallbackId::new)).map(|last| ExpireCursor { last: Some(last) }),
        next_due_in: row.next_due_in.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default()),
    };
    for (id, state) in row.ids.into_iter().map(JobId::new).zip(row.states) {
        match state {
            Some(state) => {
                let state = JobState::from_str(&state).map_err(|_| Error::Unreadable {
                    relation: "awa.expire_callbacks",
                    column: "states",
                    value: state,
                })?;
                expired.jobs.push((id, state));
            }
            None => expired.stuck.push(id),
        }
    }
    Ok(expired)
}

/// Behind which callback to go on looking for those whose job is gone; the default starts with the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForgetCursor {
    last: Option<CallbackId>,
}

/// What one look for such callbacks did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Callbacks deleted.
    pub forgotten: usize,
    /// Where to go on; `None` when all have been looked at.
    pub next: Option<ForgetCursor>,
}

/// Looks at up to `batch` callbacks, and deletes those whose job is gone: segments of the ring go without a word.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn forget(pool: &PgPool, from: ForgetCursor, batch: u32) -> Result<Forgotten, Error> {
    let last = from.last.map(CallbackId::get);
    let row = sqlx::query_file!("queries/callback/forget.sql", last, i32::try_from(batch).unwrap_or(i32::MAX))
        .fetch_one(pool)
        .await?;
    Ok(Forgotten {
        forgotten: usize::try_from(row.forgotten).unwrap_or(0),
        next: row.last_id.map(|id| ForgetCursor { last: Some(CallbackId::new(id)) }),
    })
}
