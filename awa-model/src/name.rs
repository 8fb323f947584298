//! Names of queues, kinds and steps. They end up in indexes, logs, channel payloads and terminals, so one rule holds for all:
//! 1 to 128 bytes of UTF-8 without control characters. Everything else, quotes and emoji included, is plain data.

use std::{borrow::Borrow, borrow::Cow, fmt, ops::Deref, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{insert::quoted, limits};

/// The name of a queue.
///
/// A name read from the database is taken as it is: one odd row must not keep its neighbours from being read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QueueName(Cow<'static, str>);

/// What a job is: the name by which workers find its handler.
///
/// A name read from the database is taken as it is: one odd row must not keep its neighbours from being read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Kind(Cow<'static, str>);

/// A text that cannot be the name of a queue, kind, tag or step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// It has no characters.
    #[error("{what} is empty; it must have 1 to 128 bytes")]
    Empty {
        /// What the name is for: `queue`, `kind`, `tag` or `step`.
        what: &'static str,
    },
    /// It is longer than 128 bytes.
    #[error("{what} `{start}…` has {bytes} bytes; it must have 1 to 128")]
    TooLong {
        /// What the name is for: `queue`, `kind`, `tag` or `step`.
        what: &'static str,
        /// Its first characters.
        start: String,
        /// Its length.
        bytes: usize,
    },
    /// It contains a control character, U+0000 included.
    #[error("{what} {} has the control character U+{:04X} at byte {at}; none are allowed", quoted(name), u32::from(*character))]
    ControlCharacter {
        /// What the name is for: `queue`, `kind`, `tag` or `step`.
        what: &'static str,
        /// The name.
        name: String,
        /// The character.
        character: char,
        /// Where it is.
        at: usize,
    },
}

/// How much of an overlong name an error repeats.
const EXCERPT_CHARACTERS: usize = 32;

/// Whether `name` may be the name of a queue, kind, tag or step.
pub(crate) fn check(what: &'static str, name: &str) -> Result<(), InvalidName> {
    if name.is_empty() {
        return Err(InvalidName::Empty { what });
    }
    if !limits::NAME_BYTES.contains(&name.len()) {
        let start = name.chars().filter(|character| !character.is_control()).take(EXCERPT_CHARACTERS).collect();
        return Err(InvalidName::TooLong { what, start, bytes: name.len() });
    }
    match name.char_indices().find(|(_, character)| character.is_control()) {
        None => Ok(()),
        Some((at, character)) => Err(InvalidName::ControlCharacter { what, name: name.to_owned(), character, at }),
    }
}

/// Whether `name` may be the name of a step.
///
/// # Errors
/// A name that is empty, longer than 128 bytes, or contains control characters.
pub fn check_step_name(name: &str) -> Result<(), InvalidName> {
    check("step", name)
}

/// Whether `name` may be the name of an application that declares schedules.
///
/// # Errors
/// A name that is empty, longer than 128 bytes, or contains control characters.
pub fn check_owner_name(name: &str) -> Result<(), InvalidName> {
    check("owner", name)
}

/// What `QueueName` and `Kind` share: a type each, so that neither is taken for the other.
macro_rules! checked_name {
    ($Name:ident, $what:literal) => {
        impl $Name {
            #[doc = concat!("Checks a ", $what, ".")]
            ///
            /// # Errors
            /// A name that is empty, longer than 128 bytes, or contains control characters.
            pub fn new(name: impl Into<Cow<'static, str>>) -> Result<Self, InvalidName> {
                let name = name.into();
                check($what, &name)?;
                Ok(Self(name))
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $Name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $Name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $Name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $Name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $Name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.pad(&self.0)
            }
        }

        impl FromStr for $Name {
            type Err = InvalidName;

            fn from_str(name: &str) -> Result<Self, InvalidName> {
                Self::new(name.to_owned())
            }
        }

        impl TryFrom<String> for $Name {
            type Error = InvalidName;

            fn try_from(name: String) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl TryFrom<&'static str> for $Name {
            type Error = InvalidName;

            fn try_from(name: &'static str) -> Result<Self, InvalidName> {
                Self::new(name)
            }
        }

        impl From<$Name> for String {
            fn from(name: $Name) -> Self {
                name.0.into_owned()
            }
        }

        #[cfg(feature = "sqlx")]
        crate::postgres::text!($Name);
    };
}

checked_name!(QueueName, "queue");
checked_name!(Kind, "kind");

impl Default for QueueName {
    fn default() -> Self {
        Self(Cow::Borrowed(limits::QUEUE_DEFAULT))
    }
}

#[cfg(test)]
mod tests;
