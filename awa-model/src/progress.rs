//! How far a job has come: what a person sees (percent and message) and what the next attempt needs (metadata).
//!
//! A plain value without IO. It is one JSON object, `{percent, message, metadata, generation}`, so that a later version can
//! add to it: keys of the object that this version does not know are kept. What comes from the database may have been edited
//! by hand, so reading never fails; what a handler sets is checked before anything changes.
//!
//! A report may come from the inside of a loop, so a change touches what it changes and nothing else: sizes are kept as sums,
//! and [`MetadataChange`] does what depends on the user's own types before the progress, which others may wait for, is taken
//! in hand.

use serde::Serialize;
use serde_json::{Map, Value};

pub use self::change::MetadataChange;
use self::size::{ObjectSize, Sizes};
use crate::{InvalidJson, InvalidName, json, limits};

mod change;
mod size;

/// Keys of the metadata that begin like this are Awa's.
const RESERVED: char = '$';

/// The key of the metadata under which results of steps are kept.
const STEPS: &str = "$steps";

const ROOT: &str = "progress";

/// Numbers below are exact for every reader of JSON. A generation that is not below is none: somebody has written it by hand.
const GENERATION_MAX: u64 = 1 << 53;

/// The progress of a job.
///
/// It is kept when an attempt ends, whatever way it ends, and cleared when the job completes.
///
/// ```
/// # use awa_model::Progress;
/// let mut progress = Progress::new();
/// progress.set(50, "half the tiles")?;
/// progress.set_checkpoint("done", &1234)?;
/// let stored = r#"{"percent":50,"message":"half the tiles","metadata":{"done":1234},"generation":2}"#;
/// assert_eq!(progress.to_json(), stored);
/// # Ok::<(), awa_model::ProgressError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Progress {
    #[serde(skip_serializing_if = "Option::is_none")]
    percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
    #[serde(skip_serializing_if = "is_zero")]
    generation: u64,
    /// Keys that another version or a person has put beside the four.
    #[serde(flatten)]
    others: Map<String, Value>,
    #[serde(skip)]
    message_size: usize,
    #[serde(skip)]
    metadata_size: ObjectSize,
    #[serde(skip)]
    others_size: ObjectSize,
    #[serde(skip)]
    bytes_max: usize,
}

/// A change of progress that was refused. The progress is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgressError {
    /// Something that cannot be stored as JSON, or too much of it.
    #[error(transparent)]
    Json(#[from] InvalidJson),
    /// Metadata is merged key by key, so it must be an object.
    #[error("progress metadata is {found}; it must be an object")]
    NotAnObject {
        /// What it was instead.
        found: &'static str,
    },
    /// The key belongs to Awa, as all do that begin with `$`.
    #[error("the key {key:?} of progress metadata is reserved, as all are that begin with `$`")]
    ReservedKey {
        /// The key.
        key: String,
    },
    /// A step cannot have this name.
    #[error(transparent)]
    StepName(#[from] InvalidName),
}

impl Progress {
    /// No progress yet, at most 64 KiB of it to come.
    pub fn new() -> Self {
        Self {
            percent: None,
            message: None,
            metadata: Map::new(),
            generation: 0,
            others: Map::new(),
            message_size: 0,
            metadata_size: ObjectSize::default(),
            others_size: ObjectSize::default(),
            bytes_max: limits::PROGRESS_BYTES_MAX,
        }
    }

    /// The progress that a row carries. Never fails: what does not fit is set right (a percentage, a long message) or
    /// left out (a message that is no text, metadata that is no object).
    pub fn from_json(stored: Value) -> Self {
        let Value::Object(mut others) = stored else {
            return Self::new();
        };
        let percent = others.remove("percent").as_ref().and_then(Value::as_f64).map(percent_of);
        let message = match others.remove("message") {
            Some(Value::String(message)) => Some(cut_message(message)),
            Some(_) | None => None,
        };
        let metadata = match others.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            Some(_) | None => Map::new(),
        };
        let generation = others.remove("generation").as_ref().and_then(Value::as_f64).map_or(0, generation_of);
        Self {
            percent,
            message_size: message.as_ref().map_or(0, json::size),
            message,
            metadata_size: ObjectSize::of(&metadata),
            metadata,
            generation,
            others_size: ObjectSize::of(&others),
            others,
            bytes_max: limits::PROGRESS_BYTES_MAX,
        }
    }

    /// The same progress, with room for `bytes_max` bytes as compact JSON instead of 64 KiB.
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// How much is done, 0 to 100, if the handler said so.
    pub const fn percent(&self) -> Option<u8> {
        self.percent
    }

    /// What is being done, if the handler said so.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// What the handler keeps for the next attempt, and under keys that begin with `$` what Awa keeps for it.
    pub const fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
    }

    /// How many changes have led to this value, over all attempts of the job. Of two values of one job the one with the
    /// larger number is the newer, and the database keeps that one in whatever order it hears of them.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether nothing was ever reported.
    pub fn is_empty(&self) -> bool {
        self.percent.is_none() && self.message.is_none() && self.metadata.is_empty() && self.others.is_empty()
    }

    /// The JSON text that a row carries.
    pub fn to_json(&self) -> String {
        // Keys are strings and numbers are finite in a `Value`: there is nothing that could fail.
        serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned())
    }

    /// Sets percentage and message, and keeps the metadata.
    ///
    /// A percentage outside 0 to 100 is taken as the nearer end. A message of more than 1 KiB is cut on a character
    /// boundary and ends in `…`: it is there to be read, and too long a line is no reason to fail a job.
    ///
    /// # Errors
    /// A message with U+0000, or too little room. Nothing has changed then.
    pub fn set(&mut self, percent: impl TryInto<i64>, message: impl Into<String>) -> Result<(), ProgressError> {
        let percent = percent.try_into().unwrap_or(i64::MAX).clamp(0, 100);
        let message = cut_message(message.into());
        if message.contains('\0') {
            return Err(InvalidJson::Nul { path: "progress.message".to_owned() }.into());
        }
        let percent = Some(u8::try_from(percent).unwrap_or(100));
        let message_size = json::size(&message);
        self.admit(Sizes { percent, message: Some(message_size), ..self.sizes() })?;
        self.percent = percent;
        self.message = Some(message);
        self.message_size = message_size;
        self.generation += 1;
        Ok(())
    }

    /// Merges `changes` into the metadata, one level deep: a key of `changes` replaces the whole value of the same key,
    /// other keys stay. A null is a value like any other.
    ///
    /// # Errors
    /// Anything but an object, a reserved key (one that begins with `$`), U+0000 in a key or text, nesting beyond 100 levels,
    /// or too little room. Nothing has changed then.
    pub fn update_metadata(&mut self, changes: impl Into<Value>) -> Result<(), ProgressError> {
        self.apply(MetadataChange::entries(changes)?)
    }

    /// Keeps `value` under `key` of the metadata.
    ///
    /// # Errors
    /// As [`update_metadata`](Self::update_metadata), and a value that cannot be written as JSON.
    pub fn set_checkpoint<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), ProgressError> {
        self.apply(MetadataChange::checkpoint(key, value, self.bytes_max)?)
    }

    /// What is kept under `key` of the metadata.
    pub fn checkpoint(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// The result of the step `name`, if it has run.
    pub fn step(&self, name: &str) -> Option<&Value> {
        self.metadata.get(STEPS)?.get(name)
    }

    /// Makes a change that was prepared apart.
    ///
    /// # Errors
    /// Too little room. Nothing has changed then.
    pub fn apply(&mut self, change: MetadataChange) -> Result<(), ProgressError> {
        let metadata = change.size_after(&self.metadata, self.metadata_size);
        self.admit(Sizes { metadata, ..self.sizes() })?;
        change.merge_into(&mut self.metadata);
        self.metadata_size = metadata;
        self.generation += 1;
        Ok(())
    }

    fn sizes(&self) -> Sizes {
        Sizes {
            percent: self.percent,
            message: self.message.as_ref().map(|_| self.message_size),
            metadata: self.metadata_size,
            generation: self.generation,
            others: self.others_size,
        }
    }

    /// Whether a change to these sizes is not too large. What was edited beyond the limit from outside may still shrink.
    fn admit(&self, changed: Sizes) -> Result<(), ProgressError> {
        let changed = Sizes { generation: self.generation + 1, ..changed };
        let (bytes, max) = (changed.total(), self.bytes_max);
        if bytes > max && bytes > self.sizes().total() {
            return Err(InvalidJson::TooLarge { root: ROOT, bytes, max }.into());
        }
        Ok(())
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

fn percent_of(number: f64) -> u8 {
    // A float is cast to the nearest integer that fits, and jsonb has no NaN.
    number.clamp(0.0, 100.0) as u8
}

fn generation_of(number: f64) -> u64 {
    if (0.0..GENERATION_MAX as f64).contains(&number) { number as u64 } else { 0 }
}

const fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn cut_message(mut message: String) -> String {
    const CUT: &str = "…";
    if message.len() > limits::PROGRESS_MESSAGE_BYTES_MAX {
        message.truncate(message.floor_char_boundary(limits::PROGRESS_MESSAGE_BYTES_MAX - CUT.len()));
        message.push_str(CUT);
    }
    message
}

#[cfg(test)]
mod tests;
