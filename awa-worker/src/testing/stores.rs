//! Where the attempts of a test keep what a worker would write through its pool.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use awa_model::{CallbackId, JobId, Progress};
use awa_storage::attempt::flush_progress;
use awa_storage::fate::{Fate, fate};
use awa_storage::{Error, Guarded, Held, callback};
use uuid::Uuid;

use super::lent::Borrower;
use crate::store::Store;

/// Counts what handlers ask for, and lets one request fail.
#[derive(Debug)]
pub(super) struct Requests {
    asked: AtomicUsize,
    fails: Option<usize>,
}

impl Requests {
    pub(super) fn new(fails: Option<usize>) -> Self {
        Self { asked: AtomicUsize::new(0), fails }
    }

    fn next(&self) -> Result<(), Error> {
        let number = self.asked.fetch_add(1, Ordering::AcqRel) + 1;
        if self.fails == Some(number) { Err(unreachable_database()) } else { Ok(()) }
    }
}

fn unreachable_database() -> Error {
    Error::Database(sqlx::Error::Io(io::ErrorKind::ConnectionReset.into()))
}

/// Keeps in memory what is asked for.
pub(super) struct MemoryStore {
    pub(super) requests: Requests,
    pub(super) stored: Mutex<Vec<Progress>>,
    /// What the job was resumed with.
    pub(super) payload: Option<String>,
    /// Set: every lease counts as lost.
    pub(super) lost: bool,
}

impl MemoryStore {
    /// What was stored by explicit flushes, in order.
    pub(super) fn stored(&self) -> Vec<Progress> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn flush_progress(&self, _held: &Held, progress: &str) -> Result<Guarded<()>, Error> {
        self.requests.next()?;
        if self.lost {
            return Ok(Guarded::Lost);
        }
        let progress = serde_json::from_str(progress).map(Progress::from_json).unwrap_or_default();
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).push(progress);
        Ok(Guarded::Applied(()))
    }

    fn has_rows(&self) -> bool {
        false
    }

    async fn fate(&self, _held: &Held) -> Result<Option<Fate>, Error> {
        Ok(self.lost.then_some(Fate::Rescued))
    }

    async fn open_callback(&self, _held: &Held, _timeout: Duration) -> Result<Guarded<CallbackId>, Error> {
        self.requests.next()?;
        Ok(if self.lost { Guarded::Lost } else { Guarded::Applied(CallbackId::new(Uuid::new_v4())) })
    }

    async fn callback_payload(&self, _held: &Held) -> Result<Option<String>, Error> {
        self.requests.next()?;
        Ok(self.payload.clone())
    }
}

/// Asks on the one connection that a drain has.
pub(super) struct LentStore {
    pub(super) requests: Requests,
    pub(super) connection: Borrower,
    /// The job whose lease counts as lost, whatever the database says.
    pub(super) lost: Mutex<Option<JobId>>,
}

impl LentStore {
    fn is_lost(&self, held: &Held) -> bool {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) == Some(held.job_id())
    }
}

#[async_trait]
impl Store for LentStore {
    async fn flush_progress(&self, held: &Held, progress: &str) -> Result<Guarded<()>, Error> {
        self.requests.next()?;
        if self.is_lost(held) {
            return Ok(Guarded::Lost);
        }
        let (held, progress) = (*held, progress.to_owned());
        self.connection.ask(move |db| Box::pin(async move { flush_progress(db, &held, &progress).await })).await
    }

    async fn fate(&self, held: &Held) -> Result<Option<Fate>, Error> {
        if self.is_lost(held) {
            return Ok(Some(Fate::Rescued));
        }
        let held = *held;
        self.connection.ask(move |db| Box::pin(async move { fate(db, &held).await })).await
    }

    async fn open_callback(&self, held: &Held, timeout: Duration) -> Result<Guarded<CallbackId>, Error> {
        self.requests.next()?;
        if self.is_lost(held) {
            return Ok(Guarded::Lost);
        }
        let held = *held;
        self.connection.ask(move |db| Box::pin(async move { callback::open(db, &held, timeout).await })).await
    }

    async fn callback_payload(&self, held: &Held) -> Result<Option<String>, Error> {
        self.requests.next()?;
        let id = held.job_id();
        self.connection.ask(move |db| Box::pin(async move { callback::payload(db, id).await })).await
    }
}
