//! What waits to be run, for tests of those who enqueue.

use awa_model::{JobId, JobState};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgExecutor;

use crate::Error;

/// Jobs that [`waiting`] answers at most.
pub const WAITING_MAX: i64 = 10_000;

/// A job that waits to be run.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct WaitingJob {
    /// Its id.
    pub id: JobId,
    /// What it is.
    pub kind: String,
    /// Where it queues.
    pub queue: String,
    /// Available, scheduled or retryable.
    pub state: JobState,
    /// How urgent it is.
    pub priority: i16,
    /// When it is due.
    pub run_at: DateTime<Utc>,
    /// Whether that has come, by the database's clock.
    pub due: bool,
    /// Whether its queue is paused.
    pub paused: bool,
    /// Its args.
    pub args: Value,
    /// The producer's own.
    pub metadata: Option<Value>,
    /// Labels.
    pub tags: Vec<String>,
}

/// The jobs that wait to be run, those that were enqueued first in front; at most [`WAITING_MAX`].
///
/// # Errors
/// If the database does not answer.
pub async fn waiting(db: impl PgExecutor<'_>) -> Result<Vec<WaitingJob>, Error> {
    let states = [JobState::Available, JobState::Scheduled, JobState::Retryable].map(JobState::as_str);
    let rows = sqlx::query_as(
        "select id, kind, queue, state, priority, run_at, run_at <= now() as due, args, metadata,
                coalesce(tags, '{}') as tags,
                exists (select from awa.queues as setting where setting.name = job.queue and setting.paused) as paused
           from awa.jobs as job
          where state::text = any ($1)
          order by id
          limit $2",
    )
    .bind(states)
    .bind(WAITING_MAX)
    .fetch_all(db)
    .await;
    rows.map_err(Error::of_enqueue)
}
