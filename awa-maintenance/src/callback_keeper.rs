//! Callbacks that nobody answers in time, a batch at a time.
//!
//! A full batch is followed by the next at once. Otherwise the next pass comes when the next callback is due, within bounds:
//! one that was opened meanwhile may be due sooner, and is noticed after `callback_interval_max` at the latest.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use awa_storage::callback::{ExpireCursor, Expired, expire};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass};

/// Ends the waiting of jobs whose callback is due: they are tried again, or fail without attempts left.
#[derive(Debug)]
pub struct CallbackKeeper {
    pool: PgPool,
    config: MaintenanceConfig,
    from: Mutex<ExpireCursor>,
}

impl CallbackKeeper {
    /// A keeper that starts with the oldest callback.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, from: Mutex::default() }
    }

    fn from(&self) -> MutexGuard<'_, ExpireCursor> {
        self.from.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Duty for CallbackKeeper {
    fn name(&self) -> &'static str {
        "callbacks"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.callbacks", batch.size = tracing::field::Empty)
    }

    async fn pass(&self) -> Result<Pass, Error> {
        // Taken out for the time of the pass: one that fails leaves the oldest behind.
        let from = std::mem::take(&mut *self.from());
        let expired = expire(&self.pool, from, self.config.callback_batch_max).await?;
        Span::current().record("batch.size", expired.jobs.len());
        report(&expired);
        let next = match expired.next {
            Some(next) => {
                *self.from() = next;
                Next::Now
            }
            None => {
                let (least, most) = (self.config.callback_interval_min, self.config.callback_interval_max);
                Next::In(expired.next_due_in.unwrap_or(most).clamp(least, most))
            }
        };
        Ok(Pass { changed: expired.jobs.len(), next })
    }
}

fn report(expired: &Expired) {
    for (job_id, state) in &expired.jobs {
        tracing::warn!(job.id = job_id.get(), state = state.as_str(), "nobody answered a callback in time");
    }
    for job_id in &expired.stuck {
        tracing::error!(job.id = job_id.get(), "a job whose callback is due cannot be changed, and waits on");
    }
}
