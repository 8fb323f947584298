//! Promotion: deferred jobs whose time has come move into the ring, oldest first.
//!
//! A call moves one bounded batch; the caller goes on until nothing more is due. What makes this more than a query is an old
//! snapshot somewhere: the rows that promotion has deleted then stay in the index, dead, before those that are due next. A
//! [`PromoteCursor`] passes them by, and returns to the head of the index often enough for rows that became visible behind
//! it, as long as that is cheap. It is only a hint: a new one, or one that forgets, costs time and nothing else.
//!
//! While batches are full, [`promote_others`] between two of them sees to the queues that do not crowd them (`scout.rs`).

use std::time::{Duration, Instant};

use awa_model::JobId;
use chrono::{DateTime, TimeDelta, Utc};
use sqlx::PgExecutor;

use crate::Error;

mod scout;

use scout::Scout;

/// A sweep from the head of the index may take this part of the time.
const SWEEP_SHARE: u32 = 20;

/// How far behind the last promoted row an ordinary call starts: most rows that commit late are late by less.
const OVERLAP: TimeDelta = TimeDelta::seconds(1);

type Place = (DateTime<Utc>, JobId);

/// Where the next call starts. Belongs to one caller; never shared, never stored.
#[derive(Debug, Default)]
pub struct PromoteCursor {
    /// The last row of a batch after which more were due.
    behind: Option<Place>,
    /// The due time of the last row that was promoted.
    reached: Option<DateTime<Utc>>,
    sweep_from: Option<Instant>,
    sweeps: bool,
    next_sweep: Option<Instant>,
    scout: Scout,
}

impl PromoteCursor {
    /// Where to start now.
    fn start(&mut self, now: Instant) -> Option<Place> {
        if self.behind.is_some() {
            return self.behind;
        }
        self.sweeps = self.reached.is_none() || self.next_sweep.is_none_or(|due| due <= now);
        self.sweep_from = Some(now);
        if self.sweeps {
            return None;
        }
        let from = self.reached?.checked_sub_signed(OVERLAP)?;
        Some((from, JobId::new(i64::MIN)))
    }

    /// Takes in how far a batch got, and whether more is due behind it.
    fn advance(&mut self, last: Option<Place>, more: bool, now: Instant) {
        if let Some((run_at, _)) = last {
            self.reached = Some(self.reached.map_or(run_at, |reached| reached.max(run_at)));
        }
        self.behind = if more { last } else { None };
        if self.behind.is_none()
            && self.sweeps
            && let Some(from) = self.sweep_from
        {
            self.next_sweep = Some(now + now.duration_since(from) * SWEEP_SHARE);
        }
    }
}

/// What one batch did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promoted {
    /// Jobs that are available now.
    pub promoted: usize,
    /// Jobs that cannot be promoted and have ended with an error entry: `failed` without attempts left, else `cancelled`.
    pub refused: usize,
    /// Jobs left as they were: what they need is locked, or they cannot be changed at all. Found again by a later call.
    pub left_alone: usize,
    /// When the next job is due: zero while more are due now, `None` when none waits.
    pub next_due: Option<Duration>,
    /// When the next schedule asks for something: zero if one does now. `None` where nobody asked, or it cannot be told.
    pub schedules_due: Option<Duration>,
}

/// What [`promote_others`] did; the fields are those of [`Promoted`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromotedOthers {
    /// Jobs that are available now.
    pub promoted: usize,
    /// Jobs that cannot be promoted and have ended with an error entry.
    pub refused: usize,
    /// Jobs left as they were.
    pub left_alone: usize,
}

/// Promotes up to `batch` jobs that are due by the database's clock, and wakes their queues.
///
/// One statement and one transaction. A job that cannot be promoted stops no other (I6). Safe with other callers at the same
/// time. After an error start with a new cursor: nothing may be taken for handled that is not known to be.
///
/// # Errors
///
/// If the database does not answer; then the batch was promoted or not.
pub async fn promote(db: impl PgExecutor<'_>, cursor: &mut PromoteCursor, batch: u32) -> Result<Promoted, Error> {
    promote_batch(db, cursor, batch, false).await
}

/// As [`promote`], and in the same statement asks when the next schedule asks for something. Whatever is wrong with schedules,
/// jobs are promoted; a lock on them holds that up by 50 ms at most.
///
/// # Errors
///
/// As [`promote`].
pub async fn promote_and_look_ahead(
    db: impl PgExecutor<'_>,
    cursor: &mut PromoteCursor,
    batch: u32,
) -> Result<Promoted, Error> {
    promote_batch(db, cursor, batch, true).await
}

async fn promote_batch(
    db: impl PgExecutor<'_>,
    cursor: &mut PromoteCursor,
    batch: u32,
    looks_ahead: bool,
) -> Result<Promoted, Error> {
    let start = cursor.start(Instant::now());
    let row = sqlx::query_file!(
        "queries/promote/promote.sql",
        start.map(|(run_at, _)| run_at),
        start.map(|(_, id)| id.get()),
        i32::try_from(batch).unwrap_or(i32::MAX),
        looks_ahead,
    )
    .fetch_one(db)
    .await?;
    let last = row.last_run_at.zip(row.last_id.map(JobId::new));
    let next_due = row.next_due_in.map(seconds);
    cursor.advance(last, next_due == Some(Duration::ZERO), Instant::now());
    cursor.scout.crowded_by(row.crowding.unwrap_or_default());
    Ok(Promoted {
        promoted: count(row.promoted),
        refused: count(row.refused),
        left_alone: count(row.left_alone),
        next_due,
        schedules_due: row.schedules_due_in.map(seconds),
    })
}

/// After a full batch, promotes up to `batch` due jobs of the queues that did not crowd it; answers how many jobs became
/// available, or ended. `None` where there is no backlog, without asking the database.
///
/// It looks ahead at a bounded stretch of what is due, each time at the next one. One statement and one transaction, safe with
/// other callers at the same time, and each queue is still promoted by due time. After an error start with a new cursor.
///
/// # Errors
///
/// If the database does not answer; then the jobs were promoted or not.
pub async fn promote_others(
    db: impl PgExecutor<'_>,
    cursor: &mut PromoteCursor,
    batch: u32,
) -> Result<Option<PromotedOthers>, Error> {
    let asked = Instant::now();
    let Some(look) = cursor.scout.next(cursor.behind, asked) else {
        return Ok(None);
    };
    let (run_at, id) = look.behind;
    let row = sqlx::query_file!(
        "queries/promote/promote_others.sql",
        look.passed_by,
        run_at,
        id.get(),
        i32::try_from(look.rows).unwrap_or(i32::MAX),
        i32::try_from(batch).unwrap_or(i32::MAX),
    )
    .fetch_one(db)
    .await?;
    let last = (row.last_run_at, JobId::new(row.last_id));
    // What it took to promote is not what it took to look.
    let idle = 1.0 - f64::from(row.promoted) / f64::from(batch.max(1));
    cursor.scout.looked(last, row.at_end, asked.elapsed().mul_f64(idle.max(0.0)));
    cursor.scout.full_of(row.crowding.unwrap_or_default());
    Ok(Some(PromotedOthers {
        promoted: count(row.promoted),
        refused: count(row.refused),
        left_alone: count(row.left_alone),
    }))
}

/// As long as that, or for as long as can be said.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

fn count(rows: i32) -> usize {
    usize::try_from(rows).unwrap_or(0)
}

#[cfg(test)]
mod tests;
