//! Enqueueing, over any connection, pool or transaction.
//!
//! A job enqueued in a transaction exists if and only if that transaction commits.

use awa_model::{Inserted, IntoNewJob, PreparedJob};
use sqlx::{PgConnection, PgExecutor};

use crate::failure::Error;

/// Enqueues one job: args (`&args` or `args`), or a [`NewJob`](crate::NewJob) with options.
///
/// Pass `&pool`, `&mut *tx` or `&mut connection`. Inside a transaction the job exists if and only if it commits.
///
/// # Errors
/// [`Error::InvalidJob`] if the job breaks a limit, [`Error::Storage`] if the database refuses it; nothing was written
/// then, and a transaction in which the database refused something has to be rolled back.
pub async fn enqueue<J: IntoNewJob>(db: impl PgExecutor<'_>, job: J) -> Result<Inserted<J::Args>, Error> {
    let job = job.into_new_job().prepare()?;
    Ok(awa_storage::enqueue::enqueue(db, &job).await?.assume())
}

/// Enqueues many jobs with one statement. Answers in the order given.
///
/// # Errors
/// As [`enqueue`], but for [`Error::InvalidJobAt`], which says which job breaks a limit. One job that cannot be enqueued keeps
/// all of them out.
pub async fn enqueue_many<J: IntoNewJob>(
    db: impl PgExecutor<'_>,
    jobs: impl IntoIterator<Item = J>,
) -> Result<Vec<Inserted<J::Args>>, Error> {
    let jobs = prepare(jobs)?;
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    Ok(awa_storage::enqueue::enqueue_many(db, &jobs).await?.into_iter().map(Inserted::assume).collect())
}

/// Enqueues very many jobs by COPY, which takes less of the server than [`enqueue_many`]. Answers in the order given.
///
/// All or none; with a transaction open on the connection, they exist if and only if it commits. Jobs that are unique go
/// through [`enqueue_many`] in the same transaction, and so does everything if the role may not write Awa's tables itself.
///
/// Dropping the future before it is done ends the session of the connection: nothing is added, a transaction that was open
/// is rolled back, and the next use of the connection fails.
///
/// # Errors
/// As [`enqueue_many`]. A transaction of the caller goes on as if nothing had been tried.
pub async fn enqueue_copy<J: IntoNewJob>(
    connection: &mut PgConnection,
    jobs: impl IntoIterator<Item = J>,
) -> Result<Vec<Inserted<J::Args>>, Error> {
    let jobs = prepare(jobs)?;
    Ok(awa_storage::enqueue::enqueue_copy(connection, &jobs).await?.into_iter().map(Inserted::assume).collect())
}

/// Checks all jobs; the error says which one breaks a limit.
pub(crate) fn prepare<J: IntoNewJob>(jobs: impl IntoIterator<Item = J>) -> Result<Vec<PreparedJob>, Error> {
    let prepared = |(index, job): (usize, J)| {
        job.into_new_job().prepare().map_err(|invalid| Error::InvalidJobAt { index, invalid })
    };
    jobs.into_iter().enumerate().map(prepared).collect()
}
