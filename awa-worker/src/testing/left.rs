//! What a drain has left, and why: a test that finds nothing done has to see the reason.

use awa_model::{JobId, Kind, QueueName};
use awa_storage::testing::{WaitingJob, waiting};
use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use crate::failure::Error;

/// A job that waits to be run although a queue was drained.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftJob {
    /// The job.
    pub job_id: JobId,
    /// Its kind.
    pub kind: String,
    /// Where it queues.
    pub queue: String,
    /// Why it did not run.
    pub because: LeftBecause,
}

/// Why a drain has left a job; the first that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeftBecause {
    /// It is in another queue than the one that was drained.
    OtherQueue,
    /// The client has no handler of its kind.
    NoHandler,
    /// Its queue is paused.
    QueuePaused,
    /// It is due later; see [`advance`](crate::testing::advance).
    NotDue {
        /// When.
        run_at: DateTime<Utc>,
    },
    /// None of these: it came after the last look, or another transaction has it locked.
    OutOfReach,
}

/// The jobs that still wait after `queue` was drained for `kinds`.
pub(super) async fn left(db: &mut PgConnection, queue: &QueueName, kinds: &[Kind]) -> Result<Vec<LeftJob>, Error> {
    let because = |job: &WaitingJob| match job {
        job if job.queue != queue.as_str() => LeftBecause::OtherQueue,
        job if !kinds.iter().any(|kind| kind.as_str() == job.kind) => LeftBecause::NoHandler,
        job if job.paused => LeftBecause::QueuePaused,
        job if !job.due => LeftBecause::NotDue { run_at: job.run_at },
        _ => LeftBecause::OutOfReach,
    };
    let one = |job: WaitingJob| {
        let because = because(&job);
        LeftJob { job_id: job.id, kind: job.kind, queue: job.queue, because }
    };
    Ok(waiting(db).await?.into_iter().map(one).collect())
}
