//! What operators do to jobs: call off, give another life, hasten, change, remove, and look what became of one.
//!
//! Each function is one statement, on whatever connection or transaction the caller has, and calls the function of the
//! database that other languages call too. What may be expected is a value, [`Operated`]; an error is a surprise, and nothing
//! was written then.
//!
//! # What may wait
//! A job that another transaction has locked is waited for, for a second, and then [`Operated::Busy`]; the others of the same
//! call are done. A bulk call locks all its jobs in the order of their ids before it changes the first.

pub mod fleet;
mod status;
pub mod why;

use std::time::Duration;

use awa_model::{JobEdit, JobId, JobState};
use sqlx::PgExecutor;

pub use self::status::{JobStatus, status, statuses};
use crate::Error;

/// Longer silences than this are told the database as this one, which it can hold.
const SILENCE_MAX: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// What came of an operator's wish for one job.
#[must_use = "the wish may have been refused"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operated {
    /// It is done.
    Applied,
    /// The job is so already.
    Unchanged,
    /// The job is in a state that does not allow it. Nothing was changed.
    Refused {
        /// That state.
        state: JobState,
    },
    /// Another job has the unique key that the job would need. Nothing was changed.
    Duplicate {
        /// That other job.
        holder: JobId,
    },
    /// Somebody has the job, or the unique key that it needs, locked for more than a second. Nothing was changed: try again.
    Busy,
    /// There is no such job, or not any more.
    NotFound,
}

/// Calls a job off. A handler that runs is told at once, and whatever it still returns is ignored.
/// `reason` is noted among the errors of the job.
///
/// Refused for a job that has completed or failed.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn cancel(db: impl PgExecutor<'_>, job: JobId, reason: Option<&str>) -> Result<Operated, Error> {
    one(&cancel_many(db, &[job], reason).await?)
}

/// Calls many jobs off. Answers one entry for each id, in the order given. No ids, no statement: never "all".
///
/// # Errors
/// As [`cancel`].
pub async fn cancel_many(
    db: impl PgExecutor<'_>,
    jobs: &[JobId],
    reason: Option<&str>,
) -> Result<Vec<(JobId, Operated)>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    answers(sqlx::query_file_as!(Answer, "queries/admin/cancel.sql", &numbers(jobs), reason).fetch_all(db).await)
}

/// Gives a failed or cancelled job another life: available now, with all its attempts. Its errors and progress stay.
///
/// Refused in any other state; unchanged if it is available. [`Operated::Duplicate`] where a newer job has its unique key.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn retry(db: impl PgExecutor<'_>, job: JobId) -> Result<Operated, Error> {
    one(&retry_many(db, &[job]).await?)
}

/// Gives many jobs another life. Answers one entry for each id, in the order given. Of two jobs with one unique key the
/// first gets it.
///
/// # Errors
/// As [`retry`].
pub async fn retry_many(db: impl PgExecutor<'_>, jobs: &[JobId]) -> Result<Vec<(JobId, Operated)>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    answers(sqlx::query_file_as!(Answer, "queries/admin/retry.sql", &numbers(jobs)).fetch_all(db).await)
}

/// Does not wait for the time of a scheduled or retryable job: it is available now, at the end of its lane.
///
/// Refused in any other state; unchanged if it is available.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn run_now(db: impl PgExecutor<'_>, job: JobId) -> Result<Operated, Error> {
    one(&run_now_many(db, &[job]).await?)
}

/// Does not wait for the time of many jobs. Answers one entry for each id, in the order given.
///
/// # Errors
/// As [`run_now`].
pub async fn run_now_many(db: impl PgExecutor<'_>, jobs: &[JobId]) -> Result<Vec<(JobId, Operated)>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    answers(sqlx::query_file_as!(Answer, "queries/admin/run_now.sql", &numbers(jobs)).fetch_all(db).await)
}

/// Changes a job. What is not named stays as it is; the state of a scheduled or available job follows its due time.
///
/// Refused where the state of the job does not allow one of the changes; unchanged if it is so already.
///
/// # Errors
/// [`Error::InvalidJob`] for a value that a job cannot have; otherwise if the database does not answer. Safe to repeat, but
/// for `run_in`, which counts anew.
pub async fn edit(db: impl PgExecutor<'_>, job: JobId, edit: JobEdit) -> Result<Operated, Error> {
    let changes = edit.prepare()?;
    let answer = sqlx::query_file_as!(Answer, "queries/admin/edit.sql", job.get(), changes).fetch_one(db).await;
    one(&answers(answer.map(|answer| vec![answer]))?)
}

/// Removes a job for good, in whatever state, and frees its unique key. A handler that runs is told at once.
///
/// # Errors
/// If the database does not answer. Safe to repeat: then it is not found.
pub async fn delete(db: impl PgExecutor<'_>, job: JobId) -> Result<Operated, Error> {
    one(&delete_many(db, &[job]).await?)
}

/// Removes many jobs. Answers one entry for each id, in the order given. No ids, no statement: never "all".
///
/// # Errors
/// As [`delete`].
pub async fn delete_many(db: impl PgExecutor<'_>, jobs: &[JobId]) -> Result<Vec<(JobId, Operated)>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    answers(sqlx::query_file_as!(Answer, "queries/admin/delete.sql", &numbers(jobs)).fetch_all(db).await)
}

/// A row as the functions of the database answer it.
pub(crate) struct Answer {
    pub(crate) job_id: Option<i64>,
    pub(crate) outcome: String,
    pub(crate) state: Option<JobState>,
    pub(crate) holder: Option<i64>,
}

impl Answer {
    pub(crate) fn read(self) -> Result<(JobId, Operated), Error> {
        match (self.job_id, self.operated()) {
            (Some(id), Some(operated)) => Ok((JobId::new(id), operated)),
            _ => Err(Error::Unreadable { relation: "awa.operate", column: "outcome", value: self.outcome }),
        }
    }

    fn operated(&self) -> Option<Operated> {
        Some(match self.outcome.as_str() {
            "applied" => Operated::Applied,
            "unchanged" => Operated::Unchanged,
            "refused" => Operated::Refused { state: self.state? },
            "duplicate" => Operated::Duplicate { holder: JobId::new(self.holder?) },
            "busy" => Operated::Busy,
            "not_found" => Operated::NotFound,
            _ => return None,
        })
    }
}

fn numbers(jobs: &[JobId]) -> Vec<i64> {
    jobs.iter().map(|job| job.get()).collect()
}

fn answers(rows: Result<Vec<Answer>, sqlx::Error>) -> Result<Vec<(JobId, Operated)>, Error> {
    rows.map_err(Error::of_enqueue)?.into_iter().map(Answer::read).collect()
}

fn one(answers: &[(JobId, Operated)]) -> Result<Operated, Error> {
    // The functions answer one row for each id.
    answers.first().map(|(_, operated)| *operated).ok_or(Error::Database(sqlx::Error::RowNotFound))
}
