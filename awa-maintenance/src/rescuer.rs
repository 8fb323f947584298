//! Rescue, a sweep at a time.
//!
//! A pass looks at claimed batches until it has rescued `rescue_jobs_max` attempts or its budget is used; then the next pass
//! goes on behind them at once, so that neither a great number of dead attempts nor a page of rows that must not be rescued
//! hides the rest (STUCK-05). A pass that fails starts the sweep over (LOST-02). Between sweeps lies `rescue_interval`.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use awa_storage::{
    rescue::{RescueCursor, RescueLimits, Rescued, rescue},
    workers,
};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass, contact::Contact};

/// Dead workers are taken out of the registry in batches of this size.
const FORGET_MAX: u32 = 1000;

/// Hands back the attempts of dead workers, silent ones, and those past their deadline; forgets workers long dead.
#[derive(Debug)]
pub struct Rescuer {
    pool: PgPool,
    config: MaintenanceConfig,
    from: Mutex<RescueCursor>,
    contact: Arc<Contact>,
}

impl Rescuer {
    /// A rescuer at the start of a sweep.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self::watching(pool, config, Arc::default())
    }

    /// One that waits for signs of life when the database was away.
    pub(crate) fn watching(pool: PgPool, config: MaintenanceConfig, contact: Arc<Contact>) -> Self {
        Self { pool, config, from: Mutex::default(), contact }
    }

    /// The time in which every attempt that lives says so, once it can: a heartbeat, and half of one to connect again.
    fn patience(&self) -> Duration {
        self.config.heartbeat + self.config.heartbeat / 2
    }

    fn from(&self) -> MutexGuard<'_, RescueCursor> {
        self.from.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limits(&self) -> RescueLimits {
        RescueLimits {
            worker_silence: self.config.staleness,
            attempt_silence: self.config.staleness,
            deadline_grace: self.config.deadline_grace,
            jobs_max: self.config.rescue_jobs_max,
            budget: self.config.rescue_budget,
        }
    }
}

#[async_trait]
impl Duty for Rescuer {
    fn name(&self) -> &'static str {
        "rescue"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.rescue", batch.size = tracing::field::Empty)
    }

    async fn pass(&self) -> Result<Pass, Error> {
        if let Some(left) = self.contact.patience_left(self.patience()) {
            return Ok(Pass { changed: 0, next: Next::In(left) });
        }
        // Taken out for the time of the pass: one that fails leaves the start of a sweep behind.
        let from = std::mem::take(&mut *self.from());
        let rescued = rescue(&self.pool, &self.limits(), from).await?;
        Span::current().record("batch.size", rescued.jobs.len());
        report(&rescued);
        let next = match rescued.next {
            Some(next) => {
                *self.from() = next;
                Next::Now
            }
            None => {
                workers::forget_dead(&self.pool, self.config.worker_forget, FORGET_MAX).await?;
                Next::In(self.config.rescue_interval)
            }
        };
        Ok(Pass { changed: rescued.jobs.len(), next })
    }
}

fn report(rescued: &Rescued) {
    for job in &rescued.jobs {
        tracing::warn!(
            job.id = job.job_id.get(),
            job.run_lease = job.run_lease.get(),
            reason = ?job.reason,
            state = job.state.as_str(),
            "rescued an attempt"
        );
    }
    for job_id in &rescued.stuck {
        tracing::error!(job.id = job_id.get(), "an abandoned attempt cannot be handed back, and stays running");
    }
}
