//! What became of a job, for its producer and for people.

use awa_model::{JobId, JobState, Kind, Priority, Progress, QueueName};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::PgExecutor;

use crate::Error;

/// What became of a job.
#[derive(Clone, Debug)]
pub struct JobStatus {
    /// Its id.
    pub id: JobId,
    /// What it is.
    pub kind: Kind,
    /// Where it queues.
    pub queue: QueueName,
    /// Where it is in its life.
    pub state: JobState,
    /// How urgent it is.
    pub priority: Priority,
    /// Which attempt this is or was; 0 before the first.
    pub attempt: i16,
    /// How often it is tried.
    pub max_attempts: i16,
    /// When it is or was due.
    pub run_at: DateTime<Utc>,
    /// When it was enqueued.
    pub created_at: DateTime<Utc>,
    /// When it was last claimed.
    pub attempted_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub finalized_at: Option<DateTime<Utc>>,
    /// How far it has come; `None` also where what is stored cannot be read.
    pub progress: Option<Progress>,
    /// What it produced.
    pub result: Option<Box<RawValue>>,
    /// The newest of its errors.
    pub error: Option<String>,
    /// Its queue is paused: it is not claimed meanwhile.
    pub paused: bool,
}

/// What became of a job; `None` where there is none, or none any more.
///
/// # Errors
/// If the database does not answer.
pub async fn status(db: impl PgExecutor<'_>, job: JobId) -> Result<Option<JobStatus>, Error> {
    Ok(statuses(db, &[job]).await?.pop())
}

/// What became of many jobs, in one statement: an entry for each that exists, in no particular order.
///
/// # Errors
/// If the database does not answer.
pub async fn statuses(db: impl PgExecutor<'_>, jobs: &[JobId]) -> Result<Vec<JobStatus>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query_file_as!(Row, "queries/admin/status.sql", &super::numbers(jobs)).fetch_all(db).await;
    let read = |row: Row| {
        let unreadable =
            |_| Error::Unreadable { relation: "awa.jobs", column: "priority", value: row.priority.to_string() };
        Ok(JobStatus {
            id: JobId::new(row.job_id),
            kind: row.kind,
            queue: row.queue,
            state: row.state,
            priority: Priority::new(row.priority).map_err(unreadable)?,
            attempt: row.attempt,
            max_attempts: row.max_attempts,
            run_at: row.run_at,
            created_at: row.created_at,
            attempted_at: row.attempted_at,
            finalized_at: row.finalized_at,
            progress: row.progress.and_then(|text| serde_json::from_str(&text).ok()).map(Progress::from_json),
            result: row.result.and_then(|text| RawValue::from_string(text).ok()),
            error: row.error,
            paused: row.paused,
        })
    };
    rows.map_err(Error::of_enqueue)?.into_iter().map(read).collect()
}

/// A row as `awa.job_statuses` answers it.
struct Row {
    job_id: i64,
    kind: Kind,
    queue: QueueName,
    state: JobState,
    priority: i16,
    attempt: i16,
    max_attempts: i16,
    run_at: DateTime<Utc>,
    created_at: DateTime<Utc>,
    attempted_at: Option<DateTime<Utc>>,
    finalized_at: Option<DateTime<Utc>>,
    progress: Option<String>,
    result: Option<String>,
    error: Option<String>,
    paused: bool,
}
