//! How the ring is set and how it is doing, for operators. Settings are in the database and take effect within seconds, in
//! every process, without a restart.

use std::time::Duration;

use sqlx::PgPool;

use super::from_now;
use crate::Error;

/// Settings to change; `None` leaves one as it is. Spans are kept to the microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSettings {
    /// How long completed jobs are kept, unless [`set_retention`] says otherwise: up to 1000 years.
    pub completed_retention: Option<Duration>,
    /// The same for failed jobs.
    pub failed_retention: Option<Duration>,
    /// The same for cancelled jobs.
    pub cancelled_retention: Option<Duration>,
    /// A segment that has grown this large is closed even if it is young.
    pub segment_bytes_max: Option<u64>,
    /// One that has been current for so long is closed; zero for a sixth of the retention of completed jobs.
    pub segment_age_max: Option<Duration>,
    /// How long emptying a segment waits for transactions older than the last row that left it: up to a day.
    pub snapshot_patience: Option<Duration>,
    /// The status warns when ended jobs, kept as long as they are, are expected to take more bytes; zero for never.
    pub expected_bytes_max: Option<u64>,
}

/// How long ended jobs of one queue are kept; `None` leaves what is set, or what the ring says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueRetention {
    /// Completed jobs.
    pub completed: Option<Duration>,
    /// Failed jobs.
    pub failed: Option<Duration>,
    /// Cancelled jobs.
    pub cancelled: Option<Duration>,
}

/// How the ring is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct RingStatus {
    /// The oldest live generation; generation g lies in segment g modulo 8.
    pub oldest: i64,
    /// The current one, where inserts go.
    pub current: i64,
    /// Bytes of each live segment, indexes included, the oldest first.
    pub bytes: Vec<u64>,
    /// How long ago each of them became current.
    pub ages: Vec<Duration>,
    /// Bytes of the rows that are kept aside.
    pub parked_bytes: u64,
    /// Bytes of the list of claimed batches.
    pub claims_bytes: u64,
    /// In how long the next segment becomes current; `None` while no other is free.
    pub rotate_in: Option<Duration>,
    /// In how long the oldest is worth a try; `None` while it is the current one.
    pub recycle_in: Option<Duration>,
    /// Why the oldest segment could not be emptied, if something is in the way.
    pub reason: Option<String>,
    /// For how long something has been.
    pub stuck_for: Option<Duration>,
    /// The settings, all of them; `segment_age_max` is `None` for a sixth of the retention.
    pub settings: RingSettings,
}

/// Changes settings of the ring.
///
/// # Errors
///
/// [`Error::InvalidSetting`] for a value that cannot be, and nothing is changed; or if the database does not answer.
pub async fn configure(pool: &PgPool, settings: &RingSettings) -> Result<(), Error> {
    sqlx::query_file!(
        "queries/ring/configure.sql",
        seconds(settings.completed_retention) as _,
        seconds(settings.failed_retention) as _,
        seconds(settings.cancelled_retention) as _,
        settings.segment_bytes_max.map(bytes) as _,
        seconds(settings.segment_age_max) as _,
        seconds(settings.snapshot_patience) as _,
        settings.expected_bytes_max.map(bytes) as _
    )
    .fetch_one(pool)
    .await
    .map_err(Error::of_setting)?;
    Ok(())
}

/// Says how long the ended jobs of a queue are kept. The queue need not have been used yet.
///
/// # Errors
///
/// As [`configure`].
pub async fn set_retention(pool: &PgPool, queue: &str, retention: QueueRetention) -> Result<(), Error> {
    sqlx::query_file!(
        "queries/ring/set_retention.sql",
        queue,
        seconds(retention.completed) as _,
        seconds(retention.failed) as _,
        seconds(retention.cancelled) as _
    )
    .fetch_one(pool)
    .await
    .map_err(Error::of_setting)?;
    Ok(())
}

/// Keeps the ended jobs of a queue as long as the ring says again. Answers whether something else was set.
///
/// # Errors
///
/// As [`configure`].
pub async fn reset_retention(pool: &PgPool, queue: &str) -> Result<bool, Error> {
    let row = sqlx::query_file!("queries/ring/reset_retention.sql", queue)
        .fetch_one(pool)
        .await
        .map_err(Error::of_setting)?;
    Ok(row.changed)
}

/// How is the ring doing? Reads one row and the sizes of files.
///
/// # Errors
///
/// If the database does not answer.
pub async fn status(pool: &PgPool) -> Result<RingStatus, Error> {
    let row = sqlx::query_file!("queries/ring/status.sql").fetch_one(pool).await?;
    Ok(RingStatus {
        oldest: row.oldest,
        current: row.current,
        bytes: row.bytes.into_iter().map(size).collect(),
        ages: row.ages.into_iter().map(from_now).collect(),
        parked_bytes: size(row.parked_bytes),
        claims_bytes: size(row.claims_bytes),
        rotate_in: row.rotate_in.map(from_now),
        recycle_in: row.recycle_in.map(from_now),
        reason: row.reason,
        stuck_for: row.stuck_for.map(from_now),
        settings: RingSettings {
            completed_retention: Some(from_now(row.completed_retention)),
            failed_retention: Some(from_now(row.failed_retention)),
            cancelled_retention: Some(from_now(row.cancelled_retention)),
            segment_bytes_max: Some(size(row.segment_bytes_max)),
            segment_age_max: row.segment_age_max.map(from_now),
            snapshot_patience: Some(from_now(row.snapshot_patience)),
            expected_bytes_max: Some(size(row.expected_bytes_max)),
        },
    })
}

/// Longer spans than the database can hold are refused there as others are that are too long.
fn seconds(span: Option<Duration>) -> Option<f64> {
    const BEYOND: Duration = Duration::from_secs(2000 * 365 * 24 * 60 * 60);
    span.map(|span| span.min(BEYOND).as_secs_f64())
}

fn bytes(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn size(bytes: i64) -> u64 {
    u64::try_from(bytes).unwrap_or(0)
}
