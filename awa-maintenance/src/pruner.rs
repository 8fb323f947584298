//! Retention of parked rows, a batch at a time, each state by its own rule.
//!
//! A sweep goes through the states one after the other; while batches are full it goes on at once, so a backlog of any size
//! falls with every batch (RETAIN-01). Between sweeps lies `prune_interval`.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use awa_storage::prune::{PRUNED_STATES, PruneCursor, prune_parked};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass};

/// Deletes parked rows past their retention.
#[derive(Debug)]
pub struct Pruner {
    pool: PgPool,
    config: MaintenanceConfig,
    sweep: Mutex<Sweep>,
}

/// How far a sweep has got.
#[derive(Clone, Copy, Debug, Default)]
struct Sweep {
    place: usize,
    from: PruneCursor,
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
        let Sweep { place, from } = std::mem::take(&mut *self.sweep());
        let state = PRUNED_STATES[place];
        let batch = prune_parked(&self.pool, state, from, self.config.prune_batch_max).await?;
        Span::current().record("batch.size", batch.pruned);
        if batch.pruned > 0 {
            tracing::info!(jobs = batch.pruned, state = state.as_str(), "deleted jobs past their retention");
        }
        let rest = match batch.next {
            Some(from) => Some(Sweep { place, from }),
            None if place + 1 < PRUNED_STATES.len() => Some(Sweep { place: place + 1, from: PruneCursor::default() }),
            None => None,
        };
        let next = match rest {
            Some(rest) => {
                *self.sweep() = rest;
                Next::Now
            }
            None => Next::In(self.config.prune_interval),
        };
        Ok(Pass { changed: batch.pruned, next })
    }
}
