//! The ring of segments, and the two parts of `awa.active_claims`: what is emptied by TRUNCATE.
//!
//! Inserts go to the current segment. When it is old or large the next one becomes current ([`rotate`]); when the oldest
//! holds nothing but completed rows past their retention it is truncated ([`recycle`]). Recycling reads the segment without
//! a lock and then, under one, only what is newer than a *settled mark*: a seq up to which nothing new can appear.
//! [`SettledMark`] provides it. The list of claimed batches works alike, with two parts in turn ([`switch_claims`],
//! [`empty_claims`]).
//!
//! *Invariant I7:* a truncated segment held no row that was not completed and past retention. *I14:* every running attempt
//! is listed throughout.

use std::time::{Duration, Instant};

use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    Error,
    claim::{Horizon, Observation},
};

mod settings;

pub use settings::{QueueRetention, RingSettings, RingStatus, configure, reset_retention, set_retention, status};

/// What the ring needs next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingNeeds {
    /// The oldest live generation.
    pub oldest: i64,
    /// The current one, where inserts go.
    pub current: i64,
    /// The current segment is old or large, and another is free.
    pub rotate: bool,
    /// In how long it is old; `None` while no other is free.
    pub rotate_in: Option<Duration>,
    /// In how long the oldest segment is worth a try; `None` while only the current one is live.
    pub recycle_in: Option<Duration>,
}

/// Looks at the ring. Writes nothing and takes no transaction id.
///
/// # Errors
///
/// If the database does not answer.
pub async fn look(pool: &PgPool) -> Result<RingNeeds, Error> {
    let row = sqlx::query_file!("queries/ring/look.sql").fetch_one(pool).await?;
    Ok(RingNeeds {
        oldest: row.oldest,
        current: row.current,
        rotate: row.rotate,
        rotate_in: row.rotate_in.map(from_now),
        recycle_in: row.recycle_in.map(from_now),
    })
}

/// Makes the generation after `current` current. False where somebody else was faster or the ring is full.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn rotate(pool: &PgPool, current: i64) -> Result<bool, Error> {
    let row = sqlx::query_file!("queries/ring/rotate.sql", current).fetch_one(pool).await?;
    Ok(row.rotated)
}

/// What came of an attempt to recycle the oldest segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recycled {
    /// It is empty and out of the ring.
    Done,
    /// This many rows were in the way and have been moved on: try again.
    Moved(u64),
    /// Somebody uses the table: try again, but not at once, since each try makes others wait for up to 50 ms.
    Locked,
    /// Transactions are open that may still see rows where they lay before they moved on. Try again: they are waited for, for
    /// a time that [`RingSettings::snapshot_patience`] limits.
    Snapshots {
        /// How many; also in `awa.ring.stuck_reason`.
        reason: String,
    },
    /// Rows are in the way that have to go by themselves.
    Waiting {
        /// Which; also in `awa.ring.stuck_reason`.
        reason: String,
    },
    /// Somebody else recycles.
    Raced,
}

/// Tries to empty the segment of generation `oldest`. `settled` comes from a [`SettledMark`]. Up to `move_max` rows in the
/// way are moved on: running ones keep their lease, available ones join the end of their lane, completed ones that are kept
/// longer are parked. More are left to drain.
///
/// One statement and one transaction. Others wait for it at most 50 ms, and the few milliseconds of the truncation.
///
/// # Errors
///
/// If the database does not answer; the segment is recycled then or as it was. Safe to repeat.
pub async fn recycle(pool: &PgPool, oldest: i64, settled: i64, move_max: u32) -> Result<Recycled, Error> {
    let row =
        sqlx::query_file!("queries/ring/recycle.sql", oldest, settled, i32::try_from(move_max).unwrap_or(i32::MAX - 1))
            .fetch_one(pool)
            .await?;
    match row.outcome.as_str() {
        "recycled" => Ok(Recycled::Done),
        "moved" => Ok(Recycled::Moved(u64::try_from(row.moved).unwrap_or(0))),
        "locked" => Ok(Recycled::Locked),
        "snapshots" => Ok(Recycled::Snapshots { reason: row.reason.unwrap_or_default() }),
        "waiting" => Ok(Recycled::Waiting { reason: row.reason.unwrap_or_default() }),
        "raced" => Ok(Recycled::Raced),
        other => Err(unreadable("awa.recycle", other)),
    }
}

/// A seq up to which every row is visible, or never will be.
///
/// Pure memory and a few reads; costs a transaction id only for an observation after the sequence has moved. The mark lags:
/// what was drawn before one observation is settled by a later one, once the transactions open in between have ended, or at
/// once where they have not touched a job table.
#[derive(Debug, Default)]
pub struct SettledMark {
    horizon: Horizon,
    incarnation: Option<Uuid>,
}

impl SettledMark {
    /// The mark as it stands; zero at first.
    pub fn seq(&self) -> i64 {
        self.horizon.safe()
    }

    /// Whether everything observed is settled: another observation would not move the mark.
    pub fn has_caught_up(&self) -> bool {
        self.horizon.has_caught_up() && self.horizon.set_aside().is_empty()
    }

    /// Observes once. Two observations, the second begun after the first has answered, settle what was there before both.
    ///
    /// # Errors
    ///
    /// If the database does not answer. Safe to repeat.
    pub async fn observe(&mut self, pool: &PgPool) -> Result<(), Error> {
        let row = sqlx::query_file!("queries/ring/observe.sql", self.horizon.last_marked()).fetch_one(pool).await?;
        if self.incarnation.is_some_and(|known| known != row.incarnation) {
            // A crash or failover: numbers from before may be higher than those handed out now.
            *self = Self { incarnation: Some(row.incarnation), ..Self::default() };
            return Ok(());
        }
        self.incarnation = Some(row.incarnation);
        let seen = Observation { open: row.open, seq: row.seq, xid: row.xid };
        // What set-aside transactions insert late concerns those who dispatch; here it only holds the mark down until then.
        self.horizon.observe(&seen, Instant::now());
        let aside = self.horizon.set_aside();
        if !aside.is_empty() {
            self.horizon.raise_idle(crate::claim::idle_writers(pool, &aside).await?);
        }
        Ok(())
    }
}

/// Lets claims list their batches in the other part of `awa.active_claims`, if the one written to has `bytes` and is `age`
/// old, and the other one is empty.
///
/// # Errors
///
/// If the database does not answer. Safe to repeat.
pub async fn switch_claims(pool: &PgPool, bytes: u64, age: Duration) -> Result<bool, Error> {
    let row = sqlx::query_file!(
        "queries/ring/switch_claims.sql",
        i64::try_from(bytes).unwrap_or(i64::MAX),
        age.as_secs_f64()
    )
    .fetch_one(pool)
    .await?;
    Ok(row.switched)
}

/// What came of an attempt to empty the part of `awa.active_claims` that is not written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptiedClaims {
    /// There was nothing to do.
    Empty,
    /// It is empty now.
    Done {
        /// Batches looked at.
        looked: u64,
        /// Batches of which something still runs, copied to the other part.
        copied: u64,
    },
    /// Somebody reads or writes the part, or too much came in late: try again, but not at once.
    Busy,
}

/// Tries to empty the part of `awa.active_claims` that claims do not write to. What still runs stays listed. At most
/// `newer_max` batches are looked at while claims that began before the switch have to wait.
///
/// # Errors
///
/// If the database does not answer; the part is empty then or as it was. Safe to repeat.
pub async fn empty_claims(pool: &PgPool, newer_max: u32) -> Result<EmptiedClaims, Error> {
    let row = sqlx::query_file!("queries/ring/empty_claims.sql", i32::try_from(newer_max).unwrap_or(i32::MAX - 1))
        .fetch_one(pool)
        .await?;
    match row.outcome.as_str() {
        "empty" => Ok(EmptiedClaims::Empty),
        "emptied" => Ok(EmptiedClaims::Done {
            looked: u64::try_from(row.looked).unwrap_or(0),
            copied: u64::try_from(row.copied).unwrap_or(0),
        }),
        "locked" | "newer" => Ok(EmptiedClaims::Busy),
        other => Err(unreadable("awa.empty_claims", other)),
    }
}

/// What is overdue is due now; what lies beyond all bounds is due never.
pub(crate) fn from_now(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

fn unreadable(relation: &'static str, value: &str) -> Error {
    Error::Unreadable { relation, column: "outcome", value: value.to_owned() }
}
