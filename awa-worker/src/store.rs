//! What a running attempt asks of the database by itself, apart from its heartbeat and its end.
//!
//! A worker asks through its pool. Tests of handlers have other places to keep what is asked for, so the context knows
//! this trait and no pool.

use std::time::Duration;

use async_trait::async_trait;
use awa_model::CallbackId;
use awa_storage::attempt::flush_progress;
use awa_storage::fate::{Fate, fates};
use awa_storage::{Error, Guarded, Held, callback};
use sqlx::PgPool;

use crate::bounded::Patience;

/// Where an attempt's own requests go. Every call is bounded in time.
#[async_trait]
pub(crate) trait Store: Send + Sync {
    /// Stores the progress of an attempt, a JSON text, now.
    async fn flush_progress(&self, held: &Held, progress: &str) -> Result<Guarded<()>, Error>;

    /// Whether attempts have rows, which a statement of the handler's own could find.
    fn has_rows(&self) -> bool {
        true
    }

    /// What became of an attempt that does not run under its lease any more; `None` for one that does.
    async fn fate(&self, held: &Held) -> Result<Option<Fate>, Error>;

    /// Opens a callback for an attempt, which can be answered from now on. A job that waits for it does so for at most this
    /// long.
    async fn open_callback(&self, held: &Held, timeout: Duration) -> Result<Guarded<CallbackId>, Error>;

    /// What the job was last resumed with, a JSON text; `None` where nothing came, or it never was.
    async fn callback_payload(&self, held: &Held) -> Result<Option<String>, Error>;
}

/// The store of a worker: its own pool.
pub(crate) struct PoolStore {
    pub(crate) pool: PgPool,
    pub(crate) patience: Patience,
}

#[async_trait]
impl Store for PoolStore {
    async fn flush_progress(&self, held: &Held, progress: &str) -> Result<Guarded<()>, Error> {
        self.patience.bounded(flush_progress(&self.pool, held, progress)).await
    }

    async fn fate(&self, held: &Held) -> Result<Option<Fate>, Error> {
        let answer = self.patience.bounded(fates(&self.pool, std::slice::from_ref(held))).await?;
        Ok(answer.first().map(|(_, fate)| *fate))
    }

    async fn open_callback(&self, held: &Held, timeout: Duration) -> Result<Guarded<CallbackId>, Error> {
        self.patience.bounded(callback::open(&self.pool, held, timeout)).await
    }

    async fn callback_payload(&self, held: &Held) -> Result<Option<String>, Error> {
        self.patience.bounded(callback::payload(&self.pool, held.job_id())).await
    }
}
