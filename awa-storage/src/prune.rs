//! Retention of parked rows: failed, cancelled, and completed ones that are kept longer than the ring spans.
//!
//! Completed rows in the ring go by whole segments ([`ring`](crate::ring)); only the parked ones are deleted one by one, in
//! bounded batches, each state by its own rule and each queue by its own setting.

use awa_model::{JobId, JobState};
use chrono::{DateTime, Utc};
use sqlx::PgPool;

use crate::Error;

/// The states that have a retention.
pub const PRUNED_STATES: [JobState; 3] = [JobState::Completed, JobState::Failed, JobState::Cancelled];

/// Behind which row to go on; the default starts with the oldest. Needed to get past rows that a queue keeps longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneCursor {
    last: Option<(DateTime<Utc>, JobId)>,
}

/// What one batch did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// Rows deleted.
    pub pruned: usize,
    /// Where to go on; `None` when no further row can be due.
    pub next: Option<PruneCursor>,
}

/// Deletes up to `batch` parked rows of one state that are past their retention by the database's clock.
///
/// One statement and one transaction. Unique claims go with their rows. A state without retention prunes nothing.
///
/// # Errors
///
/// If the database does not answer, or a claim stays locked for long; then nothing was deleted unless it is unknown whether
/// the statement committed. Safe to repeat.
pub async fn prune_parked(pool: &PgPool, state: JobState, from: PruneCursor, batch: u32) -> Result<Pruned, Error> {
    let row = sqlx::query_file!(
        "queries/prune/prune.sql",
        state as JobState,
        from.last.map(|(finalized_at, _)| finalized_at),
        from.last.map(|(_, id)| id.get()),
        i32::try_from(batch).unwrap_or(i32::MAX),
    )
    .fetch_one(pool)
    .await?;
    let last = row.last_finalized.zip(row.last_id.map(JobId::new));
    Ok(Pruned {
        pruned: usize::try_from(row.pruned).unwrap_or(0),
        next: last.map(|last| PruneCursor { last: Some(last) }),
    })
}
