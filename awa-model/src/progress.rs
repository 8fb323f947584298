//! How far a job has come: what a person sees (percent and message) and what the next attempt needs (metadata).
//!
//! A plain value without IO. It is one JSON object, `{percent, message, metadata}`, so that a later version can add to it:
//! keys of the object that this version does not know are kept. What comes from the database may have been edited by hand,
//! so reading never fails; what a handler sets is checked before anything changes.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{InvalidJson, json, limits};

/// The key of the metadata under which results of steps are kept; handlers cannot write it.
const STEPS: &str = "$steps";

const ROOT: &str = "progress";

/// The progress of a job.
///
/// It is kept when an attempt ends, whatever way it ends, and cleared when the job completes.
///
/// ```
/// # use awa_model::Progress;
/// let mut progress = Progress::new();
/// progress.set(50, "half the tiles")?;
/// progress.set_checkpoint("done", &1234)?;
/// assert_eq!(progress.to_json(), r#"{"percent":50,"message":"half the tiles","metadata":{"done":1234}}"#);
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
    /// Keys that another version or a person has put beside the three.
    #[serde(flatten)]
    others: Map<String, Value>,
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
    /// The key belongs to Awa.
    #[error("the key `{key}` of progress metadata is reserved")]
    ReservedKey {
        /// The key.
        key: &'static str,
    },
}

impl Progress {
    /// No progress yet, at most 64 KiB of it to come.
    pub fn new() -> Self {
        Self {
            percent: None,
            message: None,
            metadata: Map::new(),
            others: Map::new(),
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
        Self { percent, message, metadata, others, ..Self::new() }
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

    /// What the handler keeps for the next attempt.
    pub const fn metadata(&self) -> &Map<String, Value> {
        &self.metadata
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
        self.replace(Self { percent, message: Some(message), ..self.clone() })
    }

    /// Merges `changes` into the metadata, one level deep: a key of `changes` replaces the whole value of the same key,
    /// other keys stay. A null is a value like any other.
    ///
    /// # Errors
    /// Anything but an object, the reserved key `$steps`, U+0000 in a key or text, nesting beyond 100 levels, or too little
    /// room. Nothing has changed then.
    pub fn update_metadata(&mut self, changes: impl Into<Value>) -> Result<(), ProgressError> {
        let changes = match changes.into() {
            Value::Object(changes) => changes,
            other => {
                return Err(ProgressError::NotAnObject { found: json::kind_of(&other) });
            }
        };
        if changes.contains_key(STEPS) {
            return Err(ProgressError::ReservedKey { key: STEPS });
        }
        self.merge(changes)
    }

    /// Keeps `value` under `key` of the metadata.
    ///
    /// # Errors
    /// As [`update_metadata`](Self::update_metadata), and a value that cannot be written as JSON.
    pub fn set_checkpoint<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> Result<(), ProgressError> {
        let value = json::to_value(ROOT, value, self.bytes_max)?;
        self.update_metadata(Map::from_iter([(key.to_owned(), value)]))
    }

    /// What is kept under `key` of the metadata.
    pub fn checkpoint(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Keeps the result of the step `name`.
    ///
    /// # Errors
    /// U+0000 in a key or text, nesting beyond 100 levels, a value that cannot be written as JSON, or too little room.
    /// Nothing has changed then.
    pub fn set_step<T: Serialize + ?Sized>(&mut self, name: &str, result: &T) -> Result<(), ProgressError> {
        let result = json::to_value(ROOT, result, self.bytes_max)?;
        let mut steps = match self.metadata.get(STEPS) {
            Some(Value::Object(steps)) => steps.clone(),
            Some(_) | None => Map::new(),
        };
        steps.insert(name.to_owned(), result);
        self.merge(Map::from_iter([(STEPS.to_owned(), Value::Object(steps))]))
    }

    /// The result of the step `name`, if it has run.
    pub fn step(&self, name: &str) -> Option<&Value> {
        self.metadata.get(STEPS)?.get(name)
    }

    fn merge(&mut self, changes: Map<String, Value>) -> Result<(), ProgressError> {
        json::check_object("progress.metadata", &changes)?;
        let mut metadata = self.metadata.clone();
        metadata.extend(changes);
        self.replace(Self { metadata, ..self.clone() })
    }

    /// Takes on `changed` unless it is too large. What was edited beyond the limit from outside may still shrink.
    fn replace(&mut self, changed: Self) -> Result<(), ProgressError> {
        let (bytes, max) = (json::size(&changed), self.bytes_max);
        if bytes > max && bytes > json::size(self) {
            return Err(InvalidJson::TooLarge { root: ROOT, bytes, max }.into());
        }
        *self = changed;
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
