//! The ring: which segment inserts go to, and emptying the oldest.
//!
//! Looks rarely while nothing changes. Before the oldest segment comes of age it observes the horizon, so that a settled mark
//! is at hand. A try that meets a lock, a backlog, or rows within their retention is repeated later: each try may make others
//! wait for up to 50 ms, and reads the segment.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use awa_storage::ring::{self, Recycled, RingNeeds, SettledMark};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass};

/// Reading a segment that cannot be emptied yet may take this part of the time.
const READ_SHARE: u32 = 20;

/// A try that met a lock is repeated after `ring_interval_min` times up to this factor.
const LOCKED_FACTOR_MAX: u32 = 64;

/// Advances the ring and empties its oldest segment.
#[derive(Debug)]
pub struct RingKeeper {
    pool: PgPool,
    config: MaintenanceConfig,
    known: Mutex<Known>,
}

/// What one pass leaves for the next. Any value is safe.
#[derive(Debug, Default)]
struct Known {
    mark: SettledMark,
    locked_factor: u32,
}

impl RingKeeper {
    /// A keeper that knows nothing yet.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn recycle(&self, needs: &RingNeeds, known: &mut Known) -> Result<Pass, Error> {
        let from = Instant::now();
        let settled = known.mark.seq();
        let outcome = ring::recycle(&self.pool, needs.oldest, settled, self.config.stragglers_max).await?;
        let (changed, next) = match outcome {
            Recycled::Done => {
                tracing::debug!(generation = needs.oldest, "recycled a segment");
                (1, Next::Now)
            }
            Recycled::Moved(rows) => {
                tracing::debug!(generation = needs.oldest, rows, "moved rows out of a segment");
                (1, Next::Now)
            }
            Recycled::Raced => (0, Next::Now),
            Recycled::Locked => {
                known.locked_factor = (known.locked_factor * 2).clamp(1, LOCKED_FACTOR_MAX);
                let pause = self.config.ring_interval_min * known.locked_factor;
                return Ok(Pass { changed: 0, next: Next::In(pause) });
            }
            Recycled::Snapshots { reason } => {
                tracing::debug!(reason, "the oldest segment waits for old snapshots");
                (0, Next::In((from.elapsed() * READ_SHARE).max(self.config.ring_interval_min)))
            }
            Recycled::Waiting { reason } => {
                tracing::debug!(reason, "the oldest segment cannot be emptied yet");
                let pause = (from.elapsed() * READ_SHARE).max(self.config.ring_interval_max);
                (0, Next::In(pause))
            }
        };
        known.locked_factor = 0;
        Ok(Pass { changed, next })
    }

    async fn look(&self, known: &mut Known) -> Result<Pass, Error> {
        let needs = ring::look(&self.pool).await?;
        if needs.rotate && ring::rotate(&self.pool, needs.current).await? {
            tracing::debug!(generation = needs.current + 1, "a new segment is current");
            return Ok(Pass { changed: 1, next: Next::Now });
        }
        let (min, max) = (self.config.ring_interval_min, self.config.ring_interval_max);
        let Some(recycle_in) = needs.recycle_in else {
            return Ok(rest(needs.rotate_in.unwrap_or(max).clamp(min, max)));
        };
        if recycle_in > max * 2 {
            return Ok(rest(needs.rotate_in.unwrap_or(max).clamp(min, max)));
        }
        known.mark.observe(&self.pool).await?;
        if recycle_in.is_zero() && known.mark.seq() > 0 {
            return self.recycle(&needs, known).await;
        }
        let soonest = recycle_in.min(needs.rotate_in.unwrap_or(max));
        Ok(rest(soonest.clamp(min, max)))
    }
}

fn rest(pause: Duration) -> Pass {
    Pass { changed: 0, next: Next::In(pause) }
}

#[async_trait]
impl Duty for RingKeeper {
    fn name(&self) -> &'static str {
        "ring"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.ring")
    }

    async fn pass(&self) -> Result<Pass, Error> {
        // Taken out for the time of the pass: one that fails leaves nothing known behind, and a mark of zero.
        let mut known = std::mem::take(&mut *self.known());
        let pass = self.look(&mut known).await?;
        *self.known() = known;
        Ok(pass)
    }
}
