//! The one line that a peer prints.

use std::time::Duration;

use serde::Serialize;

/// What a run gave, as JSON. What a scenario has not is null.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Outcome {
    pub(crate) peer: &'static str,
    pub(crate) version: &'static str,
    pub(crate) scenario: &'static str,
    pub(crate) settings: &'static str,
    /// The settings in words.
    pub(crate) configuration: &'static str,
    /// Jobs enqueued while it was measured, or those of `drain`.
    pub(crate) jobs: u64,
    /// Of them, completed in the database.
    pub(crate) completed: u64,
    /// Handlers started while it was measured: more than `jobs` means that some ran twice.
    pub(crate) handled: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// Whether the last job was completed in time.
    pub(crate) finished: bool,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p95_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
}

impl Outcome {
    /// Sets what is divided by the time.
    pub(crate) fn rate(mut self, count: u64, took: Duration) -> Self {
        self.seconds = took.as_secs_f64();
        self.per_second = if took.is_zero() { 0.0 } else { count as f64 / self.seconds };
        self
    }
}
