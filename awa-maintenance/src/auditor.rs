//! The audit, paced: however large the tables, it takes a hundredth of the time of one connection, and comes round in the
//! end. With pieces of 5,000 rows at about 50 ms each it walks some 1,000 rows a second.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use awa_storage::audit::{Audited, audit};
use sqlx::PgPool;
use tracing::Span;

use crate::{Duty, Error, MaintenanceConfig, Next, Pass, Walk};

/// The audit may take this part of the time.
const SHARE: u32 = 100;

/// An attempt is a suspect when it was silent this many times as long as rescue waits.
const SILENCE_FACTOR: u32 = 2;

/// Walks the hot plane and looks for what must not be there.
#[derive(Debug)]
pub struct Auditor {
    pool: PgPool,
    config: MaintenanceConfig,
    walk: Mutex<Walk>,
}

impl Auditor {
    /// An auditor at the start of its walk.
    pub fn new(pool: PgPool, config: MaintenanceConfig) -> Self {
        Self { pool, config, walk: Mutex::default() }
    }

    /// How many bugs it has found since it was made.
    pub fn finds(&self) -> usize {
        self.walked().finds
    }

    fn walked(&self) -> MutexGuard<'_, Walk> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Duty for Auditor {
    fn name(&self) -> &'static str {
        "audit"
    }

    fn span(&self) -> Span {
        tracing::debug_span!("awa.audit")
    }

    async fn pass(&self) -> Result<Pass, Error> {
        let (started, from) = (Instant::now(), self.walked().at);
        let silence = self.config.staleness * SILENCE_FACTOR;
        let piece = audit(&self.pool, from, self.config.audit_rows_max, silence).await?;
        report(&piece);
        {
            let mut walk = self.walked();
            walk.at = piece.next.unwrap_or_default();
            if piece.next.is_none() {
                walk.ended = Some(tokio::time::Instant::now());
            }
            walk.finds += piece.finds();
        }
        Ok(Pass {
            changed: piece.finds(),
            next: Next::In((started.elapsed() * SHARE).max(self.config.audit_interval_min)),
        })
    }

    fn walk(&self) -> Option<Walk> {
        Some(*self.walked())
    }
}

fn report(piece: &Audited) {
    for job_id in &piece.passed_by {
        tracing::error!(job.id = job_id.get(), "bug: dispatch had passed by an available job; it is back in its lane");
    }
    for job_id in &piece.unlisted {
        tracing::error!(job.id = job_id.get(), "bug: an abandoned attempt was listed nowhere; it is handed back");
    }
    for job_id in &piece.doubled {
        tracing::error!(job.id = job_id.get(), "bug: a job exists twice");
    }
}
