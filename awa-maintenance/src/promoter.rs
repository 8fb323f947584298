//! Promotion, timed by the next due job.
//!
//! A pass moves one batch; where that was full, it then sees to the queues that have hardly been in it. While more is due it
//! comes again at once; else it sleeps until the next job is due, but no less
//! than `promote_interval_min`, which gathers jobs into batches, and no more than `promote_interval_max`, which is how long a
//! job may wait that was scheduled in the meantime.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use awa_storage::promote::{PromoteCursor, Promoted, PromotedOthers, promote, promote_and_look_ahead, promote_others};
use sqlx::PgPool;
use tokio::time::Instant;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass, outlook::Outlook};

/// Moves deferred jobs whose time has come into the ring.
#[derive(Debug)]
pub struct Promoter {
    pool: PgPool,
    config: MaintenanceConfig,
    cursor: Mutex<PromoteCursor>,
    outlook: Option<Arc<Outlook>>,
}

impl Promoter {
    /// A promoter that starts at the head of the index.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, cursor: Mutex::default(), outlook: None }
    }

    /// One that asks for schedules as well, so that they need not be asked for apart.
    pub(crate) fn looking_ahead(mut self, outlook: Arc<Outlook>) -> Self {
        self.outlook = Some(outlook);
        self
    }

    async fn batch(&self, cursor: &mut PromoteCursor) -> Result<Promoted, Error> {
        let limit = self.config.promote_batch_max;
        // In a backlog the passes follow each other closely.
        let interval = self.config.promote_interval_max / 2;
        let Some(outlook) = self.outlook.as_ref().filter(|outlook| outlook.is_to_be_asked(interval)) else {
            return Ok(promote(&self.pool, cursor, limit).await?);
        };
        let asked = Instant::now();
        let batch = promote_and_look_ahead(&self.pool, cursor, limit).await?;
        outlook.hear(asked, batch.schedules_due);
        Ok(batch)
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
        let batch = self.batch(&mut cursor).await?;
        let others = promote_others(&self.pool, &mut cursor, self.config.promote_batch_max).await?;
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
