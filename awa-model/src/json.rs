//! What JSON may go into the database. jsonb refuses U+0000, readers refuse what nests too deep, and JSON itself has no
//! word for NaN: all three are found here, before a statement is sent, and named by their place in the document.

mod strict;

use std::{collections::BTreeMap, io};

use serde::{Serialize, de::IgnoredAny};
use serde_json::{Map, Value};

/// A value that cannot be stored as JSON and read back the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJson {
    /// A text or a key contains U+0000.
    #[error("{path} contains U+0000, which PostgreSQL cannot store")]
    Nul {
        /// Where, like `args.items[3].name`.
        path: String,
    },
    /// A number is NaN or infinite.
    #[error("{path} is not a finite number, which JSON cannot express")]
    NotFinite {
        /// Where, like `args.items[3].weight`.
        path: String,
    },
    /// It nests deeper than readers of JSON follow.
    #[error("{root} nests deeper than {max} levels")]
    TooDeep {
        /// What nests too deep: `args`, `metadata` or `progress`.
        root: &'static str,
        /// How deep it may nest.
        max: usize,
    },
    /// It is larger than allowed.
    #[error("{root} has {bytes} bytes as JSON; at most {max} are allowed")]
    TooLarge {
        /// What is too large: `args`, `metadata` or `progress`.
        root: &'static str,
        /// Its size as compact JSON.
        bytes: usize,
        /// How large it may be.
        max: usize,
    },
    /// Its own `Serialize` failed, or wrote something that is no JSON.
    #[error("{root} cannot be written as JSON")]
    Unserializable {
        /// What could not be written.
        root: &'static str,
        /// Why.
        source: serde_json::Error,
    },
}

/// Writes `value` as compact JSON of at most `bytes_max` bytes that PostgreSQL can store as jsonb. `root` names it in
/// errors.
///
/// Memory is bounded by the limit, not by the value.
///
/// # Errors
/// U+0000 in a text or key, NaN or an infinity, nesting beyond 100 levels, too many bytes, or a `Serialize` that fails.
pub fn json_text<T: Serialize + ?Sized>(
    root: &'static str,
    value: &T,
    bytes_max: usize,
) -> Result<String, InvalidJson> {
    let mut sink = Sink { text: Vec::with_capacity(128), bytes: 0, bytes_max };
    strict::write(root, value, &mut serde_json::Serializer::new(&mut sink))?;
    if sink.bytes > bytes_max {
        return Err(InvalidJson::TooLarge { root, bytes: sink.bytes, max: bytes_max });
    }
    let unserializable = |error| InvalidJson::Unserializable { root, source: serde::ser::Error::custom(error) };
    let text = String::from_utf8(sink.text).map_err(unserializable)?;
    // Raw JSON inside the value is copied as it is, so its escapes have not been looked at. Escapes are rare: control
    // characters are all that is ever written as one.
    if text.contains("\\u") {
        let parsed = serde_json::from_str(&text).map_err(|source| InvalidJson::Unserializable { root, source })?;
        check(root, &parsed)?;
    }
    Ok(text)
}

/// Whether `value` can be stored; its size is not looked at.
pub(crate) fn check(root: &'static str, value: &Value) -> Result<(), InvalidJson> {
    strict::write(root, value, &mut serde_json::Serializer::new(io::sink()))
}

/// The same for an object.
pub(crate) fn check_object(root: &'static str, object: &Map<String, Value>) -> Result<(), InvalidJson> {
    strict::write(root, object, &mut serde_json::Serializer::new(io::sink()))
}

/// `value` as JSON of at most `bytes_max` bytes that can be stored.
pub(crate) fn to_value<T: Serialize + ?Sized>(
    root: &'static str,
    value: &T,
    bytes_max: usize,
) -> Result<Value, InvalidJson> {
    let text = json_text(root, value, bytes_max)?;
    serde_json::from_str(&text).map_err(|source| InvalidJson::Unserializable { root, source })
}

/// How long `value` is as compact JSON, without writing it anywhere.
pub(crate) fn size<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut sink = Sink { text: Vec::new(), bytes: 0, bytes_max: 0 };
    // Values that were checked have nothing that could fail to be written; a partial count would only be too small.
    let _ = serde_json::to_writer(&mut sink, value);
    sink.bytes
}

/// What a JSON value is, in words for an error.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The keys of the object that `text` is; `None` if it is something else.
pub(crate) fn top_level_keys(text: &str) -> Option<Keys> {
    serde_json::from_str(text).ok().map(Keys)
}

pub(crate) struct Keys(BTreeMap<String, IgnoredAny>);

impl Keys {
    pub(crate) fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

/// Counts everything, keeps no more than the limit.
struct Sink {
    text: Vec<u8>,
    bytes: usize,
    bytes_max: usize,
}

impl io::Write for Sink {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.bytes += part.len();
        if self.bytes <= self.bytes_max {
            self.text.extend_from_slice(part);
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
