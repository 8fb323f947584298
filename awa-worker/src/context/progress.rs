//! Progress and checkpoints: what a handler reports, and what an earlier attempt has left.

use std::sync::Arc;

use awa_model::{MetadataChange, Progress};
use awa_storage::Guarded;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::JobContext;
use crate::attempts::CancelReason;
use crate::failure::Error;
use crate::progress_buffer::{ProgressBuffer, Snapshot};

impl JobContext {
    /// The progress of the job: what earlier attempts left, and what this one reports.
    #[must_use]
    pub fn progress(&self) -> ProgressHandle<'_> {
        ProgressHandle { context: self }
    }

    /// What [`Self::set_checkpoint`] last kept under this key, in this attempt or an earlier one.
    ///
    /// # Errors
    /// When what is kept is not a `T`.
    pub fn checkpoint<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, CheckpointError> {
        let kept = self.attempt.progress().read(|progress| progress.checkpoint(key).cloned());
        let Some(value) = kept else { return Ok(None) };
        serde_json::from_value(value).map_err(|source| CheckpointError { key: key.to_owned(), source })
    }

    /// Keeps a value for later attempts, as the entry `key` of the progress metadata.
    ///
    /// It is stored with the next heartbeat or with the end of the attempt; a crash before that loses it. Follow with
    /// `progress().flush().await` where that matters.
    ///
    /// # Errors
    /// When the value does not encode, the key begins with `$`, or the progress would become too large; nothing is changed
    /// then.
    pub fn set_checkpoint<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<(), Error> {
        let buffer = self.attempt.progress();
        // Encoding is the caller's code: not under the lock, which the heartbeat needs too.
        buffer.apply(MetadataChange::checkpoint(key, value, buffer.bytes_max())?)?;
        Ok(())
    }
}

/// A checkpoint that cannot be read as the type asked for.
#[derive(Debug, thiserror::Error)]
#[error("the checkpoint {key:?} is not of the type asked for")]
pub struct CheckpointError {
    key: String,
    source: serde_json::Error,
}

/// Reads and reports progress. What is reported waits in memory; see [`Self::flush`].
#[derive(Debug, Clone, Copy)]
pub struct ProgressHandle<'a> {
    context: &'a JobContext,
}

impl ProgressHandle<'_> {
    /// The latest progress, stored or not.
    #[must_use]
    pub fn get(&self) -> Progress {
        self.context.attempt.progress().latest()
    }

    /// Reports how far the job is. `percent` is clamped to 0..=100, a long message is cut; the metadata stays.
    ///
    /// # Errors
    /// When the message cannot be stored; nothing is changed then.
    pub fn set(&self, percent: impl TryInto<i64>, message: impl Into<String>) -> Result<(), Error> {
        // Conversions are the caller's code: not under the lock, which the heartbeat needs too.
        let (percent, message) = (percent.try_into().unwrap_or(i64::MAX), message.into());
        Ok(self.context.attempt.progress().set(percent, message)?)
    }

    /// Merges the entries of a JSON object into the metadata. Top-level entries replace those of the same name.
    ///
    /// # Errors
    /// When it is not an object, has an entry whose name begins with `$`, holds what the database cannot store, or makes the
    /// progress too large; nothing is changed then.
    pub fn update_metadata(&self, entries: impl Into<Value>) -> Result<(), Error> {
        let change = MetadataChange::entries(entries)?;
        self.context.attempt.progress().apply(change)?;
        Ok(())
    }

    /// Stores everything reported so far. On `Ok` it is in the database.
    ///
    /// Without it, progress is stored with the next heartbeat and with the end of the attempt. Dropping this future does
    /// not stop the write.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when the attempt is no longer this process's or has ended, and [`Error::Storage`] when the database could
    /// not be asked; the progress is kept and told again later.
    pub async fn flush(&self) -> Result<(), Error> {
        let Some(buffer) = self.context.attempt.reported() else { return Ok(()) };
        self.context.flush(buffer, buffer.generation()).await
    }
}

impl JobContext {
    /// Resolves when this generation of the progress, or a newer one, is stored.
    pub(super) async fn flush(&self, buffer: &Arc<ProgressBuffer>, wanted: u64) -> Result<(), Error> {
        loop {
            let returned = buffer.returned();
            tokio::pin!(returned);
            returned.as_mut().enable();
            // The settlement carries what was reported before; written after that, this could be overwritten by it.
            if self.attempt.is_answered() {
                return Err(Error::LeaseLost);
            }
            if buffer.is_stored(wanted) {
                return Ok(());
            }
            match buffer.snapshot() {
                Some(snapshot) => self.write(snapshot).await?,
                None => returned.await,
            }
        }
    }

    /// Writes a snapshot on a task of its own: cut off half way, it might arrive after a newer one.
    async fn write(&self, snapshot: Snapshot) -> Result<(), Error> {
        let (attempt, store) = (Arc::clone(&self.attempt), Arc::clone(&self.services.store));
        let writing = self.services.runtime.spawn(async move {
            let answer = store.flush_progress(&attempt.held, snapshot.json()).await?;
            match answer {
                Guarded::Applied(()) => {
                    snapshot.stored();
                    Ok(())
                }
                Guarded::Lost => {
                    let fate = store.fate(&attempt.held).await.ok().flatten();
                    attempt.cancel(fate.map_or(CancelReason::LeaseLost, CancelReason::of));
                    Err(Error::LeaseLost)
                }
            }
        });
        // A task that was cut off by the end of its runtime has stored nothing that we know of.
        writing.await.unwrap_or(Err(Error::Stopped { part: "runtime" }))
    }
}
