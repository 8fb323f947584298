//! Time jumps.

use std::time::Duration;

use awa_model::JobId;
use awa_storage::callback::{ExpireCursor, expire};
use awa_storage::promote::{PromoteCursor, promote};
use awa_storage::rescue::{RescueCursor, RescueLimits, rescue};
use awa_storage::testing::age;
use sqlx::{Acquire, PgConnection, Postgres};

use crate::failure::Error;

/// Jobs that one statement promotes or rescues.
const BATCH: u32 = 1000;

/// How long after its deadline an attempt is taken from a worker, which should have ended it by itself.
const DEADLINE_GRACE: Duration = Duration::from_secs(10);

/// An attempt that was silent for this long is taken for dead: the default of a worker.
const STALE_AFTER: Duration = Duration::from_secs(90);

/// What a time jump has brought about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advanced {
    /// How many scheduled and retryable jobs have become due, and are available now.
    pub promoted: usize,
    /// The jobs whose attempts were taken from processes that are gone, silent or late.
    pub rescued: Vec<JobId>,
    /// The jobs that have waited in vain for the answer to a callback.
    pub timed_out: Vec<JobId>,
}

/// Lets time pass, for the database: everything stored becomes older by `by`, and maintenance does what is due then.
/// Scheduled and retryable jobs whose time has come are available; attempts of dead processes, those without a sign of life
/// for 90 seconds and those past their deadline are handed back; jobs stop waiting for callbacks that are due. `Duration::ZERO` only does what is due already.
///
/// Takes a pool, or `&mut *tx` for jobs that only this transaction sees. A worker that runs in the meantime is treated as if
/// it had been stopped for that time: it may lose what it runs.
///
/// # Errors
/// [`Error::Storage`] if the database does not answer.
pub async fn advance<'a>(db: impl Acquire<'a, Database = Postgres>, by: Duration) -> Result<Advanced, Error> {
    let mut connection = db.acquire().await.map_err(awa_storage::Error::from)?;
    jump(&mut connection, by).await
}

async fn jump(db: &mut PgConnection, by: Duration) -> Result<Advanced, Error> {
    if !by.is_zero() {
        age(&mut *db, by).await?;
    }
    let mut advanced = Advanced { promoted: promote_due(db).await?, ..Advanced::default() };
    let limits = RescueLimits {
        worker_silence: STALE_AFTER,
        attempt_silence: STALE_AFTER,
        deadline_grace: DEADLINE_GRACE,
        jobs_max: BATCH,
        budget: DEADLINE_GRACE,
    };
    let mut from = Some(RescueCursor::default());
    while let Some(cursor) = from {
        let pass = rescue(&mut *db, &limits, cursor).await?;
        advanced.rescued.extend(pass.jobs.iter().map(|job| job.job_id));
        from = pass.next;
    }
    let mut from = Some(ExpireCursor::default());
    while let Some(cursor) = from {
        let pass = expire(&mut *db, cursor, BATCH).await?;
        advanced.timed_out.extend(pass.jobs.iter().map(|(job, _)| *job));
        from = pass.next;
    }
    Ok(advanced)
}

/// Promotes everything that is due. Answers how many became available.
pub(super) async fn promote_due(db: &mut PgConnection) -> Result<usize, Error> {
    let mut cursor = PromoteCursor::default();
    let mut promoted = 0;
    loop {
        let pass = promote(&mut *db, &mut cursor, BATCH).await?;
        promoted += pass.promoted;
        if pass.next_due != Some(Duration::ZERO) || pass.promoted + pass.refused == 0 {
            return Ok(promoted);
        }
    }
}
