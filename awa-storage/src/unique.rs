//! How a uniqueness rule travels: as the parameters that `awa.unique_key` and the enqueue functions take.
//!
//! The key itself is computed by the database alone, so that producers in different languages cannot disagree; a claim row
//! for it exists exactly while its job is in one of the rule's states, which triggers keep on every path.

use awa_model::{Unique, UniqueArgs};

/// The parameters of one rule. All are null or without effect for a job that is not unique.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UniqueParameters<'a> {
    /// Bits of the states in which the key is held; `None` makes the job not unique.
    pub(crate) states: Option<i16>,
    pub(crate) by_queue: bool,
    pub(crate) by_args: bool,
    pub(crate) fields: Option<&'a [String]>,
    pub(crate) period_seconds: Option<f64>,
}

impl<'a> UniqueParameters<'a> {
    pub(crate) fn of(unique: Option<&'a Unique>) -> Self {
        let Some(unique) = unique else {
            return Self::default();
        };
        Self {
            states: Some(unique.states.bits()),
            by_queue: unique.queue,
            by_args: unique.args == UniqueArgs::All,
            fields: match &unique.args {
                UniqueArgs::Fields(fields) => Some(fields),
                UniqueArgs::Ignore | UniqueArgs::All => None,
            },
            period_seconds: unique.period.map(|period| period.as_secs_f64()),
        }
    }
}
