//! Retention of parked rows, a batch at a time, each state by its own rule.
//!
//! A sweep goes through the states one after the other; while batches are full it goes on at once, so a backlog of any size
//! falls with every batch (RETAIN-01). Last comes a look for callbacks whose job is gone: one batch a sweep, which goes on where
//! the one before ended, and at once while at least half of what it looks at is of that sort. Between sweeps lies
//! `prune_interval`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use awa_model::JobState;
use awa_storage::callback::{ForgetCursor, forget};
use awa_storage::prune::{PRUNED_STATES, PruneCursor, prune_parked};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass};

/// Deletes parked rows past their retention, and callbacks whose job is gone.
#[derive(Debug)]
pub struct Pruner {
    pool: PgPool,
    config: MaintenanceConfig,
    sweep: Mutex<Sweep>,
}

/// How far a sweep has got. Behind the last state come the callbacks.
#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    place: usize,
    from: PruneCursor,
    /// Goes on from sweep to sweep.
    callbacks: ForgetCursor,
}

impl Pruner {
    /// A pruner at the start of a sweep.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, sweep: Mutex::default() }
    }

    fn sweep(&self) -> MutexGuard<'_, Sweep> {
        self.sweep.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Duty for Pruner {
    fn name(&self) -> &'static str {
        "retention"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.prune", batch.size = tracing::field::Empty)
    }

    async fn pass(&self) -> Result<Pass, Error> {
        // Taken out for the time of the pass: one that fails leaves the start of a sweep behind.
        let sweep = std::mem::take(&mut *self.sweep());
        let step = match PRUNED_STATES.get(sweep.place) {
            Some(state) => self.prune(sweep, *state).await?,
            None => self.forget(sweep).await?,
        };
        Span::current().record("batch.size", step.changed);
        *self.sweep() = step.rest;
        Ok(Pass { changed: step.changed, next: step.next })
    }
}

/// What one pass did, and where the next one goes on.
struct Step {
    changed: usize,
    rest: Sweep,
    next: Next,
}

impl Pruner {
    async fn prune(&self, at: Sweep, state: JobState) -> Result<Step, Error> {
        let batch = prune_parked(&self.pool, state, at.from, self.config.prune_batch_max).await?;
        if batch.pruned > 0 {
            tracing::info!(jobs = batch.pruned, state = state.as_str(), "deleted jobs past their retention");
        }
        let rest = match batch.next {
            Some(from) => Sweep { from, ..at },
            None => Sweep { place: at.place + 1, from: PruneCursor::default(), ..at },
        };
        Ok(Step { changed: batch.pruned, rest, next: Next::Now })
    }

    async fn forget(&self, at: Sweep) -> Result<Step, Error> {
        let batch = forget(&self.pool, at.callbacks, self.config.prune_batch_max).await?;
        if batch.forgotten > 0 {
            tracing::info!(callbacks = batch.forgotten, "deleted callbacks whose job is gone");
        }
        let callbacks = batch.next.unwrap_or_default();
        let many = batch.next.is_some() && batch.forgotten * 2 >= self.config.prune_batch_max as usize;
        let (place, next) = if many { (at.place, Next::Now) } else { (0, Next::In(self.config.prune_interval)) };
        Ok(Step { changed: batch.forgotten, rest: Sweep { place, callbacks, ..at }, next })
    }
}
