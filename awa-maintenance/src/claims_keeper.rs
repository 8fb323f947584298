//! The list of claimed batches, kept short: rescue reads it through.
//!
//! Claims write to one part. When that is large the other one, empty by then, takes over, and the first is emptied: batches of
//! which something still runs are copied. A small list is left alone for long, and one without claims for ever.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use awa_storage::ring::{EmptiedClaims, empty_claims, switch_claims};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass};

/// So many batches may be looked at while claims that began before the switch wait.
const NEWER_MAX: u32 = 64;

/// A try that met a lock is repeated after `claims_interval` times up to this factor.
const BUSY_FACTOR_MAX: u32 = 16;

/// Switches the parts of `awa.active_claims` and empties them in turn.
#[derive(Debug)]
pub struct ClaimsKeeper {
    pool: PgPool,
    config: MaintenanceConfig,
    busy_factor: Mutex<u32>,
}

impl ClaimsKeeper {
    /// A keeper.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, busy_factor: Mutex::new(1) }
    }

    fn busy_factor(&self) -> MutexGuard<'_, u32> {
        self.busy_factor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Duty for ClaimsKeeper {
    fn name(&self) -> &'static str {
        "claims"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.claims")
    }

    async fn pass(&self) -> Result<Pass, Error> {
        let emptied = empty_claims(&self.pool, NEWER_MAX).await?;
        if emptied == EmptiedClaims::Busy {
            let factor = {
                let mut factor = self.busy_factor();
                *factor = (*factor * 2).min(BUSY_FACTOR_MAX);
                *factor
            };
            return Ok(Pass { changed: 0, next: Next::In(self.config.claims_interval * factor) });
        }
        *self.busy_factor() = 1;
        let switched = switch_claims(&self.pool, self.config.claims_bytes, self.config.claims_age).await?;
        if let EmptiedClaims::Done { looked, copied } = emptied {
            tracing::debug!(looked, copied, "emptied a part of the list of claimed batches");
        }
        Ok(Pass {
            changed: usize::from(emptied != EmptiedClaims::Empty) + usize::from(switched),
            // Right after a switch only the claims then in flight can still write to the part left.
            next: Next::In(self.config.claims_interval),
        })
    }
}
