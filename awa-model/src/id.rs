//! Ids of jobs and workers. They are types of their own so that no function can be handed the wrong number.

use std::{cmp::Ordering, fmt, hash, marker::PhantomData, num::ParseIntError, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// The id of a job; never reused.
///
/// `A` is the type of its args where that is known, so that waiting for `JobId<Resize>` gives what `Resize` produces. Ids
/// from elsewhere (a database row, a command line) are plain `JobId`.
pub struct JobId<A = ()> {
    value: i64,
    // Says nothing about ownership: the id is Send, Sync and Copy whatever A is.
    args: PhantomData<fn() -> A>,
}

impl<A> JobId<A> {
    /// Wraps the number that the database assigned.
    pub const fn new(value: i64) -> Self {
        Self { value, args: PhantomData }
    }

    /// The number as the database stores it.
    pub const fn get(self) -> i64 {
        self.value
    }

    /// The same id, without its type of args.
    pub const fn untyped(self) -> JobId {
        JobId::new(self.value)
    }

    /// The same id, taken to be of a job with args `B`: for an id that came as a number, so that
    /// `client.wait(id.assume::<Resize>(), …)` knows what the job produces. Nothing checks this: a wrong `B` shows when the
    /// job's output is read. `JobId::<Resize>::from(number)` says the same in one step.
    pub const fn assume<B>(self) -> JobId<B> {
        JobId::new(self.value)
    }
}

impl<A> Clone for JobId<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for JobId<A> {}

impl<A> PartialEq for JobId<A> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<A> Eq for JobId<A> {}

impl<A> PartialOrd for JobId<A> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<A> Ord for JobId<A> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl<A> hash::Hash for JobId<A> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl<A> fmt::Debug for JobId<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("JobId").field(&self.value).finish()
    }
}

impl<A> fmt::Display for JobId<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(formatter)
    }
}

impl<A> From<JobId<A>> for i64 {
    fn from(id: JobId<A>) -> Self {
        id.value
    }
}

/// As [`JobId::new`].
impl<A> From<i64> for JobId<A> {
    fn from(value: i64) -> Self {
        Self::new(value)
    }
}

/// The number, as [`Display`](fmt::Display) writes it: from a command line, or a path of a URL.
impl<A> FromStr for JobId<A> {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self::new)
    }
}

impl<A> Serialize for JobId<A> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(serializer)
    }
}

impl<'de, A> Deserialize<'de> for JobId<A> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(Self::new)
    }
}

/// The id of one worker process, chosen by itself at start and never used again.
///
/// Host names and process ids repeat; this does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct WorkerId(Uuid);

impl WorkerId {
    /// Wraps an id that exists already.
    pub const fn new(value: Uuid) -> Self {
        Self(value)
    }

    /// A fresh id for this process.
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// The id as the database stores it.
    pub const fn get(self) -> Uuid {
        self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_from_its_number_and_its_text() {
        struct Resize;
        let id = JobId::<Resize>::from(42);
        assert_eq!((id, id.to_string().parse()), (JobId::new(42), Ok(id)));
        assert!("4x2".parse::<JobId>().is_err());
    }
}
