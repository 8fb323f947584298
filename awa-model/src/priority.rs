//! Urgency of a job within its queue.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits;

/// How urgent a job is: 1 (first) to 4 (last), 2 unless it says otherwise.
///
/// Strict: while a queue has a job of priority 1 that may run, it claims none of priority 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "i16", into = "i16")]
#[cfg_attr(feature = "sqlx", derive(sqlx::Type), sqlx(transparent))]
pub struct Priority(i16);

impl Priority {
    /// Before all others: 1.
    pub const FIRST: Self = Self(*limits::PRIORITIES.start());

    /// Unless a job says otherwise: 2.
    pub const DEFAULT: Self = Self(limits::PRIORITY_DEFAULT);

    /// After all others: 4.
    pub const LAST: Self = Self(*limits::PRIORITIES.end());

    /// All priorities, most urgent first.
    pub const ALL: [Self; 4] = [Self(1), Self(2), Self(3), Self(4)];

    /// The priority of that number.
    ///
    /// # Errors
    /// Any number outside 1 to 4.
    pub const fn new(value: i16) -> Result<Self, InvalidPriority> {
        if value < Self::FIRST.0 || value > Self::LAST.0 { Err(InvalidPriority { value }) } else { Ok(Self(value)) }
    }

    /// Its number, 1 to 4.
    pub const fn get(self) -> i16 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TryFrom<i16> for Priority {
    type Error = InvalidPriority;

    fn try_from(value: i16) -> Result<Self, InvalidPriority> {
        Self::new(value)
    }
}

impl From<Priority> for i16 {
    fn from(priority: Priority) -> Self {
        priority.0
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// A number that is no priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("priority is {value}; it must be 1 to 4")]
pub struct InvalidPriority {
    /// The number.
    pub value: i16,
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn only_one_to_four_are_priorities() {
        for value in [i16::MIN, -1, 0, 5, i16::MAX] {
            let refusal = Priority::new(value).expect_err("outside the range").to_string();
            assert_eq!(refusal, format!("priority is {value}; it must be 1 to 4"));
        }
        assert_eq!([1, 2, 3, 4].map(|value| Priority::new(value).expect("inside the range")), Priority::ALL);
    }

    #[test]
    fn json_cannot_smuggle_in_a_wrong_priority() {
        assert_eq!(serde_json::from_str::<Priority>("3").expect("a priority").get(), 3);
        assert!(serde_json::from_str::<Priority>("5").is_err());
    }
}
