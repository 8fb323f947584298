//! What a handler has reported and the database does not know yet (ADR-014).
//!
//! Handlers report often, the database is told seldom: with a heartbeat, with the settlement, or when the handler asks
//! for it. Values are numbered: [`Generations`] remembers the newest number that the database has confirmed, and hands out
//! one snapshot at a time. The number travels with the value, and the database keeps the newest: a statement that was cut
//! off and arrives after all cannot undo what a later one has stored.
//!
//! It is pure memory; the mutex round it is never held over an await or over user code, and a poisoned one is recovered,
//! since every method leaves the values whole.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use awa_model::{MetadataChange, Progress, ProgressError};
use serde_json::Value;
use tokio::sync::Notify;

use crate::steps_taken::StepsTaken;

/// A value that counts its changes.
pub(crate) trait Numbered {
    /// Larger after each change.
    fn generation(&self) -> u64;
}

impl Numbered for Progress {
    fn generation(&self) -> u64 {
        Self::generation(self)
    }
}

/// The latest value and how far the database has followed it.
#[derive(Debug, Clone)]
pub(crate) struct Generations<V> {
    latest: V,
    acknowledged: u64,
    in_flight: Option<u64>,
}

impl<V: Numbered> Generations<V> {
    /// Starts from what the row holds, which needs no telling.
    pub(crate) fn new(seed: V) -> Self {
        Self { acknowledged: seed.generation(), latest: seed, in_flight: None }
    }

    pub(crate) fn latest(&self) -> &V {
        &self.latest
    }

    /// The value, to be changed in place.
    pub(crate) fn latest_mut(&mut self) -> &mut V {
        &mut self.latest
    }

    pub(crate) fn generation(&self) -> u64 {
        self.latest.generation()
    }

    /// Whether the value with this number, or a newer one, is known to be stored.
    pub(crate) fn is_stored(&self, generation: u64) -> bool {
        self.acknowledged >= generation
    }

    /// The latest value if the database has not confirmed it, whatever is in flight.
    pub(crate) fn unconfirmed(&self) -> Option<&V> {
        (self.acknowledged < self.generation()).then_some(&self.latest)
    }

    /// Hands out the latest value to be stored; nothing while it is stored already or another snapshot is out.
    pub(crate) fn take(&mut self) -> Option<&V> {
        if self.in_flight.is_some() || self.is_stored(self.generation()) {
            return None;
        }
        self.in_flight = Some(self.generation());
        Some(&self.latest)
    }

    /// The snapshot that is out was stored.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(generation) = self.in_flight.take() {
            self.acknowledged = generation;
        }
    }

    /// The snapshot that is out was not stored, or nobody knows: its value, or a newer one, has to be told again.
    pub(crate) fn give_back(&mut self) {
        self.in_flight = None;
    }
}

/// The progress of one attempt, shared by its handler and the tasks that store it.
#[derive(Debug)]
pub(crate) struct ProgressBuffer {
    generations: Mutex<Generations<Progress>>,
    bytes_max: usize,
    /// Told whenever a snapshot comes back.
    returned: Notify,
    steps: StepsTaken,
}

impl ProgressBuffer {
    /// Starts from the progress of earlier attempts. `bytes_max` bounds it as JSON.
    pub(crate) fn new(seed: Option<&Value>, bytes_max: usize) -> Self {
        let seed = seed.cloned().map(Progress::from_json).unwrap_or_default().with_bytes_max(bytes_max);
        Self {
            generations: Mutex::new(Generations::new(seed)),
            bytes_max,
            returned: Notify::new(),
            steps: StepsTaken::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Generations<Progress>> {
        self.generations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How large the progress may be as JSON.
    pub(crate) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Which steps this attempt is at.
    pub(crate) fn steps(&self) -> &StepsTaken {
        &self.steps
    }

    /// The latest value, stored or not.
    pub(crate) fn latest(&self) -> Progress {
        self.lock().latest().clone()
    }

    /// Looks at the latest value without copying it.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Progress) -> T) -> T {
        look(self.lock().latest())
    }

    /// Reports percentage and message, or changes nothing if they could not be stored.
    pub(crate) fn set(&self, percent: i64, message: String) -> Result<(), ProgressError> {
        self.lock().latest_mut().set(percent, message)
    }

    /// Changes the metadata, or nothing if the whole could not be stored. Returns the number of the new value.
    pub(crate) fn apply(&self, change: MetadataChange) -> Result<u64, ProgressError> {
        let mut generations = self.lock();
        generations.latest_mut().apply(change)?;
        Ok(generations.generation())
    }

    /// The number of the latest value, to be asked about with [`Self::is_stored`].
    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation()
    }

    pub(crate) fn is_stored(&self, generation: u64) -> bool {
        self.lock().is_stored(generation)
    }

    /// The JSON to be written along with the settlement, if the database lacks it.
    pub(crate) fn unconfirmed(&self) -> Option<String> {
        self.lock().unconfirmed().map(Progress::to_json)
    }

    /// Takes the snapshot that is to be stored next, if there is one and none is out.
    pub(crate) fn snapshot(self: &Arc<Self>) -> Option<Snapshot> {
        let json = self.lock().take().map(Progress::to_json)?;
        Some(Snapshot { buffer: Arc::clone(self), json, stored: false })
    }

    /// Resolves at the next return of a snapshot. Enable it before looking, so that no return is missed.
    pub(crate) fn returned(&self) -> tokio::sync::futures::Notified<'_> {
        self.returned.notified()
    }
}

/// The one snapshot that is out. Dropped without [`Snapshot::stored`], it counts as not stored.
#[derive(Debug)]
pub(crate) struct Snapshot {
    buffer: Arc<ProgressBuffer>,
    json: String,
    stored: bool,
}

impl Snapshot {
    pub(crate) fn json(&self) -> &str {
        &self.json
    }

    /// The database has confirmed it.
    pub(crate) fn stored(mut self) {
        self.stored = true;
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut generations = self.buffer.lock();
        if self.stored {
            generations.acknowledge();
        } else {
            generations.give_back();
        }
        drop(generations);
        self.buffer.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
