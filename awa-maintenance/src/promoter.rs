//! Promotion, timed by the next due job.
//!
//! A pass moves one batch. While more is due it comes again at once; else it sleeps until the next job is due, but no less
//! than `promote_interval_min`, which gathers jobs into batches, and no more than `promote_interval_max`, which is how long a
//! job may wait that was scheduled in the meantime.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use awa_storage::promote::{PromoteCursor, promote};
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
        let batch = promote(&self.pool, &mut cursor, self.config.promote_batch_max).await?;
        *self.cursor() = cursor;
        Span::current().record("batch.size", batch.promoted);
        if batch.promoted > 0 {
            tracing::debug!(batch.size = batch.promoted, "promoted jobs");
        }
        if batch.refused > 0 {
            tracing::warn!(jobs = batch.refused, "jobs that cannot be promoted have ended; see their errors");
        }
        if batch.left_alone > 0 {
            tracing::warn!(jobs = batch.left_alone, "due jobs cannot be promoted now, and stay");
        }
        let (min, max) = (self.config.promote_interval_min, self.config.promote_interval_max);
        Ok(Pass {
            changed: batch.promoted + batch.refused,
            next: match batch.next_due {
                Some(due) if due.is_zero() => Next::Now,
                Some(due) => Next::In(due.clamp(min, max)),
                None => Next::In(max),
            },
        })
    }
}
