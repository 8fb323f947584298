//! The registry of worker processes: who is alive, and what they serve.
//!
//! A process registers before it claims, shows a sign of life regularly, and takes itself out when it stops. What it may
//! still hold then is rescued at once; a process that dies is found when it has been silent for long. Ownership goes by an id
//! that is fresh for every process, never by a name (DUP-10).

use std::time::Duration;

use awa_model::WorkerId;
use chrono::{DateTime, Utc};
use sqlx::{PgExecutor, PgPool};

use crate::{Error, Guarded};

/// What a process says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerInfo {
    /// Fresh for this process.
    pub id: WorkerId,
    /// A name for people; need not be unique.
    pub name: String,
    /// The host it runs on.
    pub host: String,
    /// Its process id there.
    pub pid: i32,
    /// Its version of Awa.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// The kinds it has handlers for.
    pub kinds: Vec<String>,
}

/// A process as the registry knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredWorker {
    /// What it said about itself.
    pub info: WorkerInfo,
    /// When it registered first.
    pub started_at: DateTime<Utc>,
    /// Its last sign of life.
    pub last_seen_at: DateTime<Utc>,
    /// How long ago that was by the database's clock.
    pub silent_for: Duration,
}

/// Enters the process, or what has changed about it, and creates settings rows for queues that have none.
///
/// # Errors
///
/// If the database does not answer, or a queue name breaks its limits. Safe to repeat.
pub async fn register(db: impl PgExecutor<'_>, worker: &WorkerInfo) -> Result<(), Error> {
    sqlx::query_file!(
        "queries/workers/register.sql",
        worker.id.get(),
        worker.name,
        worker.host,
        worker.pid,
        worker.version,
        &worker.queues,
        &worker.kinds
    )
    .fetch_one(db)
    .await?;
    Ok(())
}

/// A sign of life. Lost when the process has no row any more: it was taken for dead, and must register again.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn beat(pool: &PgPool, worker: WorkerId) -> Result<Guarded<()>, Error> {
    let row = sqlx::query_file!("queries/workers/beat.sql", worker.get()).fetch_one(pool).await?;
    Ok(guarded(row.known))
}

/// Takes the process out. Attempts it still holds are rescued at the next pass, without waiting for their silence.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn unregister(db: impl PgExecutor<'_>, worker: WorkerId) -> Result<Guarded<()>, Error> {
    let row = sqlx::query_file!("queries/workers/unregister.sql", worker.get()).fetch_one(db).await?;
    Ok(guarded(row.known))
}

/// Every process that has a row, oldest first.
///
/// # Errors
///
/// If the database does not answer.
pub async fn list(pool: &PgPool) -> Result<Vec<RegisteredWorker>, Error> {
    let rows = sqlx::query_file!("queries/workers/list.sql").fetch_all(pool).await?;
    Ok(rows
        .into_iter()
        .map(|row| RegisteredWorker {
            info: WorkerInfo {
                id: WorkerId::new(row.id),
                name: row.name,
                host: row.host,
                pid: row.pid,
                version: row.version,
                queues: row.queues,
                kinds: row.kinds,
            },
            started_at: row.started_at,
            last_seen_at: row.last_seen_at,
            silent_for: Duration::try_from_secs_f64(row.silent_for.max(0.0)).unwrap_or_default(),
        })
        .collect())
}

/// Forgets up to `limit` processes that were not seen for `silence`. Answers how many.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn forget_dead(pool: &PgPool, silence: Duration, limit: u32) -> Result<usize, Error> {
    let row = sqlx::query_file!(
        "queries/workers/forget.sql",
        silence.as_secs_f64(),
        i32::try_from(limit).unwrap_or(i32::MAX)
    )
    .fetch_one(pool)
    .await?;
    Ok(usize::try_from(row.forgotten).unwrap_or(0))
}

fn guarded(applied: bool) -> Guarded<()> {
    if applied { Guarded::Applied(()) } else { Guarded::Lost }
}
