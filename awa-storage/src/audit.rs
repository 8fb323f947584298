//! The audit: a paced walk over the hot plane that looks for what must not be there.
//!
//! Dispatch rests on a proof and rescue on a list; both can be undone by a bug here or by a hand in the tables. The audit
//! looks at every row once in a long while, mends what can be mended, and counts each find as the bug it is. [`reset_marks`]
//! is for the case where the numbers themselves came from elsewhere: a restore, an import.

use std::time::Duration;

use awa_model::JobId;
use sqlx::PgPool;

use crate::Error;

/// The parked rows, where a walk begins.
const FIRST_SEGMENT: i16 = -1;

/// How far the walk has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditCursor {
    segment: i16,
    after: i64,
}

impl AuditCursor {
    /// The segment that it is in; -1 for the parked rows.
    pub fn segment(&self) -> i16 {
        self.segment
    }

    /// The id of the job behind which it goes on.
    pub fn after(&self) -> i64 {
        self.after
    }
}

impl Default for AuditCursor {
    fn default() -> Self {
        Self { segment: FIRST_SEGMENT, after: i64::MIN }
    }
}

/// What one piece of the walk found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// Rows looked at.
    pub looked: usize,
    /// Available jobs that no look would have found. They have got a fresh place in their lane.
    pub passed_by: Vec<JobId>,
    /// Abandoned attempts that rescue would not have found. They have been handed back.
    pub unlisted: Vec<JobId>,
    /// Jobs that exist twice. Nothing is done about them.
    pub doubled: Vec<JobId>,
    /// Where to go on; `None` at the end of the plane.
    pub next: Option<AuditCursor>,
}

impl Audited {
    /// How many bugs this piece shows.
    pub fn finds(&self) -> usize {
        self.passed_by.len() + self.unlisted.len() + self.doubled.len()
    }
}

/// Looks at up to `rows` rows. An attempt is a suspect when it was silent for `silence`: take more than rescue waits, so that
/// what rescue is about to find costs nothing here.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn audit(pool: &PgPool, from: AuditCursor, rows: u32, silence: Duration) -> Result<Audited, Error> {
    let row = sqlx::query_file!(
        "queries/audit/audit.sql",
        from.segment,
        from.after,
        i32::try_from(rows).unwrap_or(i32::MAX),
        silence.as_secs_f64(),
    )
    .fetch_one(pool)
    .await?;
    let jobs = |ids: Vec<i64>| ids.into_iter().map(JobId::new).collect();
    Ok(Audited {
        looked: usize::try_from(row.looked).unwrap_or(0),
        passed_by: jobs(row.passed_by),
        unlisted: jobs(row.unlisted),
        doubled: jobs(row.doubled),
        next: row.next_segment.zip(row.next_after).map(|(segment, after)| AuditCursor { segment, after }),
    })
}

/// Forgets how far lanes are settled, here and in every running process. To be called after a restore, an import, or the
/// promotion of a logical subscriber. Answers how many marks were dropped.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn reset_marks(pool: &PgPool) -> Result<usize, Error> {
    let row = sqlx::query_file!("queries/audit/reset_marks.sql").fetch_one(pool).await?;
    Ok(usize::try_from(row.dropped).unwrap_or(0))
}
