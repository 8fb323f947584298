//! What became of attempts that somebody took from the worker that runs them.
//!
//! An operator cancels or deletes the job, a callback ends it from outside, rescue hands it to another process. The worker
//! is told by a notification ([`notify`](crate::notify)) or finds out by a heartbeat that matches no row; here it learns
//! why, and whether it is true: a notification may be anybody's.

use awa_model::{JobId, JobState, RunLease};
use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::{Error, lease::Held};

/// Why an attempt does not run under its lease any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fate {
    /// Somebody called the job off.
    Cancelled,
    /// Somebody deleted the job.
    Deleted,
    /// A callback ended the attempt from outside.
    Answered,
    /// Another process has the job, or will have it: it was handed back, or claimed again since.
    Rescued,
}

impl Fate {
    /// The word of the database. One that a later version may add is the least that is certain.
    pub(crate) fn read(word: &str) -> Self {
        match word {
            word if word == JobState::Cancelled.as_str() => Self::Cancelled,
            "deleted" => Self::Deleted,
            "answered" => Self::Answered,
            _ => Self::Rescued,
        }
    }
}

/// Which of these attempts have been taken away, and why. Those that still run are missing from the answer.
///
/// Only what two statements agree on is answered, the second begun after the first had ended: a row that is on the move keeps
/// its lease (I13). So one statement where nothing was taken.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn fates(pool: &PgPool, held: &[Held]) -> Result<Vec<(Held, Fate)>, Error> {
    let suspects: Vec<Held> = ask(pool, held).await?.into_iter().map(|(suspect, _)| suspect).collect();
    ask(pool, &suspects).await
}

/// The same of one attempt, on a connection; `None` for one that still runs.
///
/// # Errors
///
/// As [`fates`].
pub async fn fate(db: &mut PgConnection, held: &Held) -> Result<Option<Fate>, Error> {
    if ask(&mut *db, std::slice::from_ref(held)).await?.is_empty() {
        return Ok(None);
    }
    Ok(ask(db, std::slice::from_ref(held)).await?.first().map(|(_, fate)| *fate))
}

async fn ask(db: impl PgExecutor<'_>, held: &[Held]) -> Result<Vec<(Held, Fate)>, Error> {
    if held.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<i64> = held.iter().map(|held| held.job_id.get()).collect();
    let leases: Vec<i64> = held.iter().map(|held| held.run_lease.get()).collect();
    let rows = sqlx::query_file!("queries/fate/fates.sql", &ids, &leases).fetch_all(db).await?;
    // Answered in the order asked, so one walk finds each.
    let mut asked = held.iter();
    let found = |id: i64, lease: i64| {
        move |held: &&Held| held.job_id == JobId::new(id) && held.run_lease == RunLease::new(lease)
    };
    Ok(rows
        .into_iter()
        .filter_map(|row| Some((*asked.find(found(row.id, row.run_lease))?, Fate::read(&row.why))))
        .collect())
}
