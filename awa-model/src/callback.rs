//! The id of a callback: the right to answer it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a job waits for, by the name under which the outside answers it.
///
/// Random, drawn by the database: whoever knows it may answer, and nobody can guess it. Hand it to the system that is to
/// answer, and to no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct CallbackId(Uuid);

impl CallbackId {
    /// Wraps an id that exists already.
    pub const fn new(value: Uuid) -> Self {
        Self(value)
    }

    /// The id as the database stores it.
    pub const fn get(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for CallbackId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A text that is no id of a callback. It is not repeated here: it might be a secret of somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the id of a callback, which is a UUID")]
pub struct InvalidCallbackId;

impl FromStr for CallbackId {
    type Err = InvalidCallbackId;

    fn from_str(text: &str) -> Result<Self, InvalidCallbackId> {
        Uuid::try_parse(text).map(Self).map_err(|_| InvalidCallbackId)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallbackId, InvalidCallbackId};

    #[test]
    fn an_id_reads_back_from_text_and_json() {
        let text = "6f2b7a52-3f0e-4b6c-9d3f-0a1b2c3d4e5f";
        let id: CallbackId = text.parse().expect("an id");
        assert_eq!(id.to_string(), text);
        let json = serde_json::to_string(&id).expect("JSON");
        assert_eq!(json, format!("{text:?}"));
        assert_eq!(serde_json::from_str::<CallbackId>(&json).expect("an id"), id);
        for other in ["", "7", "6f2b7a52-3f0e-4b6c-9d3f-0a1b2c3d4e5", "6f2b7a52-3f0e-4b6c-9d3f-0a1b2c3d4e5g"] {
            assert_eq!(other.parse::<CallbackId>(), Err(InvalidCallbackId), "{other:?}");
        }
    }
}
