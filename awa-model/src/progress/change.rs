//! A change of the metadata, prepared and checked apart from the progress that it is for.

use serde::Serialize;
use serde_json::{Map, Value};

use super::size::ObjectSize;
use super::{ProgressError, RESERVED, ROOT, STEPS};
use crate::{check_step_name, json};

/// Entries to be merged into the metadata of a [`Progress`](super::Progress).
///
/// Encoding them is the user's own code and may take as long as it likes, so it is done here, before the progress is taken
/// in hand. What the database could not store is refused here too; only the size of the whole is left to be looked at.
#[derive(Clone, Debug)]
pub struct MetadataChange {
    entries: Map<String, Value>,
    /// The entries' own entries are merged, instead of replacing what is there.
    deep: bool,
}

impl MetadataChange {
    /// The entries of a JSON object; each replaces the whole value of the same key.
    ///
    /// # Errors
    /// Anything but an object, a key that begins with `$`, U+0000 in a key or text, or nesting beyond 100 levels.
    pub fn entries(changes: impl Into<Value>) -> Result<Self, ProgressError> {
        let entries = match changes.into() {
            Value::Object(entries) => entries,
            other => {
                return Err(ProgressError::NotAnObject { found: json::kind_of(&other) });
            }
        };
        if let Some(key) = entries.keys().find(|key| key.starts_with(RESERVED)) {
            return Err(ProgressError::ReservedKey { key: key.clone() });
        }
        Self::checked(entries, false)
    }

    /// One entry of any type, of at most `bytes_max` bytes as JSON.
    ///
    /// # Errors
    /// As [`entries`](Self::entries), and a value that cannot be written as JSON or is too large.
    pub fn checkpoint<T: Serialize + ?Sized>(key: &str, value: &T, bytes_max: usize) -> Result<Self, ProgressError> {
        let value = json::to_value(ROOT, value, bytes_max)?;
        Self::entries(Map::from_iter([(key.to_owned(), value)]))
    }

    /// The result of a step, of at most `bytes_max` bytes as JSON. Results of other steps stay.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint), and a name that is not one of 1 to 128 bytes without control characters.
    pub fn step<T: Serialize + ?Sized>(step: &str, result: &T, bytes_max: usize) -> Result<Self, ProgressError> {
        check_step_name(step)?;
        let result = json::to_value(ROOT, result, bytes_max)?;
        let steps = Map::from_iter([(step.to_owned(), result)]);
        Self::checked(Map::from_iter([(STEPS.to_owned(), Value::Object(steps))]), true)
    }

    fn checked(entries: Map<String, Value>, deep: bool) -> Result<Self, ProgressError> {
        json::check_object("progress.metadata", &entries)?;
        Ok(Self { entries, deep })
    }

    /// How large the metadata will be.
    pub(super) fn size_after(&self, metadata: &Map<String, Value>, before: ObjectSize) -> ObjectSize {
        self.entries.iter().fold(before, |size, (key, value)| match (metadata.get(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if self.deep => {
                let inside = ObjectSize::of(old);
                let merged = new.iter().fold(inside, |size, (key, value)| size.with(key, value, old.get(key)));
                size.changed_by(inside.inside(), merged.inside())
            }
            (old, _) => size.with(key, value, old),
        })
    }

    pub(super) fn merge_into(self, metadata: &mut Map<String, Value>) {
        for (key, value) in self.entries {
            match (metadata.get_mut(&key), value) {
                (Some(Value::Object(old)), Value::Object(new)) if self.deep => old.extend(new),
                (_, value) => {
                    metadata.insert(key, value);
                }
            }
        }
    }
}
