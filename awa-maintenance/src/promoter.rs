//! Promotion, timed by the next due job.
//!
//! A pass moves one batch; where that was full, it then sees to the queues that have hardly been in it. While more is due it
//! comes again at once; else it sleeps until the next job is due, but no less
//! than `promote_interval_min`, which gathers jobs into batches, and no more than `promote_interval_max`, which is how long a
//! job may wait that was scheduled in the meantime.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use awa_storage::promote::{PromoteCursor, PromotedOthers, promote, promote_others};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass};

/// Moves deferred jobs whose time has come into the ring.
#[derive(Debug)]
pub struct Promoter {
    pool: PgPool,
    config: MaintenanceConfig,
    cursor: Mutex<PromoteCursor>,
}

impl Promoter {
    /// A promoter that starts at the head of the index.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, cursor: Mutex::default() }
    }

    fn cursor(&self) -> std::sync::MutexGuard<'_, PromoteCursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Duty for Promoter {
    fn name(&self) -> &'static str {
        "promotion"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.promote", batch.size = tracing::field::Empty)
    }

    async fn pass(&self) -> Result<Pass, Error> {
        // Taken out for the time of the pass: one that fails leaves a new cursor behind, which starts at the head.
        let mut cursor = std::mem::take(&mut *self.cursor());
        let limit = self.config.promote_batch_max;
        let batch = promote(&self.pool, &mut cursor, limit).await?;
        let others = promote_others(&self.pool, &mut cursor, limit).await?;
        *self.cursor() = cursor;
        let PromotedOthers { promoted, refused, left_alone } = others.unwrap_or_default();
        let (promoted, refused) = (batch.promoted + promoted, batch.refused + refused);
        let left_alone = batch.left_alone + left_alone;
        Span::current().record("batch.size", promoted);
        if promoted > 0 {
            tracing::debug!(batch.size = promoted, "promoted jobs");
        }
        if refused > 0 {
            tracing::warn!(jobs = refused, "jobs that cannot be promoted have ended; see their errors");
        }
        if left_alone > 0 {
            tracing::warn!(jobs = left_alone, "due jobs cannot be promoted now, and stay");
        }
        let (min, max) = (self.config.promote_interval_min, self.config.promote_interval_max);
        Ok(Pass {
            changed: promoted + refused,
            next: match batch.next_due {
                Some(due) if due.is_zero() => Next::Now,
                Some(due) => Next::In(due.clamp(min, max)),
                None => Next::In(max),
            },
        })
    }
}
