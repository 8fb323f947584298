//! How large progress is as compact JSON, kept as sums: a report must not cost a walk over all that was reported before.

use serde_json::{Map, Value};

use crate::json;

/// The size of an object, so far as it depends on its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ObjectSize {
    entries: usize,
    /// Of the entries, without the commas between them.
    bytes: usize,
}

impl ObjectSize {
    pub(super) fn of(object: &Map<String, Value>) -> Self {
        object.iter().fold(Self::default(), |size, (key, value)| size.with(key, value, None))
    }

    /// The size once `value` is under `key`, where `old` was before.
    pub(super) fn with(self, key: &str, value: &Value, old: Option<&Value>) -> Self {
        let key_and_colon = json::size(key) + 1;
        match old {
            Some(old) => Self { bytes: self.bytes + json::size(value) - json::size(old), ..self },
            None => Self { entries: self.entries + 1, bytes: self.bytes + key_and_colon + json::size(value) },
        }
    }

    /// The size once the value of one of its entries has changed its own from `before` to `after`.
    pub(super) const fn changed_by(self, before: usize, after: usize) -> Self {
        Self { bytes: self.bytes + after - before, ..self }
    }

    pub(super) const fn is_empty(self) -> bool {
        self.entries == 0
    }

    /// The entries and the commas between them.
    pub(super) const fn inside(self) -> usize {
        self.bytes + self.entries.saturating_sub(1)
    }
}

/// The sizes of all parts of a progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) percent: Option<u8>,
    pub(super) message: Option<usize>,
    pub(super) metadata: ObjectSize,
    pub(super) generation: u64,
    pub(super) others: ObjectSize,
}

impl Sizes {
    /// The whole document.
    pub(super) fn total(self) -> usize {
        let parts = [
            self.percent.map(|percent| r#""percent":"#.len() + digits(percent.into())),
            self.message.map(|bytes| r#""message":"#.len() + bytes),
            (!self.metadata.is_empty()).then(|| r#""metadata":{}"#.len() + self.metadata.inside()),
            (self.generation > 0).then(|| r#""generation":"#.len() + digits(self.generation)),
            (!self.others.is_empty()).then(|| self.others.inside()),
        ];
        let present = parts.iter().flatten().count();
        "{}".len() + parts.iter().flatten().sum::<usize>() + present.saturating_sub(1)
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}
