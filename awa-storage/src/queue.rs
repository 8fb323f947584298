//! Pausing queues, and letting them go on. Names are literal, and a queue need not have been used yet.

use awa_model::QueueName;
use sqlx::PgExecutor;

use crate::Error;

/// Pauses a queue: no worker claims from it any more. What runs goes on, and jobs are enqueued and promoted as ever. Answers
/// whether that changed anything.
///
/// A claim that began before this committed may still come back with jobs. A pause outlives every process.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn pause(db: impl PgExecutor<'_>, queue: &QueueName) -> Result<bool, Error> {
    let changed = sqlx::query_file_scalar!("queries/queue/pause.sql", queue.as_str()).fetch_one(db).await;
    changed.map_err(Error::of_enqueue)
}

/// Lets a paused queue go on, and wakes workers that sleep. Answers whether it was paused.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn resume(db: impl PgExecutor<'_>, queue: &QueueName) -> Result<bool, Error> {
    let changed = sqlx::query_file_scalar!("queries/queue/resume.sql", queue.as_str()).fetch_one(db).await;
    changed.map_err(Error::of_enqueue)
}
