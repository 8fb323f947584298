//! What can go wrong in a pass. The maintainer logs it and comes again; nothing is remembered as handled (LOST-02).

use std::time::Duration;

/// Errors of a pass.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A statement failed.
    #[error(transparent)]
    Storage(#[from] awa_storage::Error),

    /// The pass took longer than `pass_time_max` and was given up. Its statement may still take effect, as a whole.
    #[error("given up after {after:?}")]
    TimedOut {
        /// How long it was waited for.
        after: Duration,
    },

    /// The duty has panicked. In a process that leads it is started again.
    #[error("panicked: {0}")]
    Panicked(String),
}
