//! What one run gave, and how it compares with the run of Awa just before.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{
    Call, Spent,
    options::{Scenario, Settings},
    table::times,
};
use crate::numbers::grouped;

/// The line of a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Its name for readers.
    pub(super) peer: String,
    pub(super) version: String,
    /// Its settings in words.
    pub(super) configuration: String,
    pub(super) jobs: u64,
    pub(super) completed: u64,
    pub(super) handled: u64,
    pub(super) seconds: f64,
    pub(super) per_second: f64,
    pub(super) finished: bool,
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
}

/// One run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// The name in the list of programs.
    pub(super) program: String,
    pub(super) settings: Settings,
    pub(super) scenario: Scenario,
    pub(super) round: u32,
    pub(super) error: Option<String>,
    pub(super) outcome: Option<Outcome>,
    /// Bytes of log over all jobs.
    pub(super) wal_bytes_per_job: Option<f64>,
    pub(super) server_cpu_us_per_job: Option<f64>,
    pub(super) client_cpu_us_per_job: Option<f64>,
    /// Its figure over that of Awa in the same pair; none for Awa's own half.
    pub(super) ratio: Option<f64>,
}

impl Record {
    /// An empty one.
    pub(super) fn new(call: &Call<'_>, round: u32) -> Self {
        Self {
            program: call.program.name.clone(),
            settings: call.settings,
            scenario: call.scenario,
            round,
            error: None,
            outcome: None,
            wal_bytes_per_job: None,
            server_cpu_us_per_job: None,
            client_cpu_us_per_job: None,
            ratio: None,
        }
    }

    /// Takes in what came out.
    pub(super) fn with(mut self, outcome: Outcome, spent: Spent) -> Self {
        // Jobs that were not completed have cost something too; they are in the sum and not in the divisor.
        let jobs = if outcome.completed > 0 { outcome.completed } else { outcome.jobs }.max(1) as f64;
        self.wal_bytes_per_job = Some(spent.wal_bytes / jobs);
        self.server_cpu_us_per_job = spent.server_seconds.map(|seconds| seconds * 1e6 / jobs);
        self.client_cpu_us_per_job = spent.client_seconds.map(|seconds| seconds * 1e6 / jobs);
        self.outcome = Some(outcome);
        self
    }

    /// Compares it with the run of Awa that it is paired with.
    pub(super) fn against(mut self, reference: &Self) -> Self {
        let pair = self.figure().zip(reference.figure()).filter(|(_, reference)| *reference > 0.0);
        self.ratio = pair.map(|(own, reference)| own / reference);
        self
    }

    /// What counts of its scenario: jobs a second, or the median of times.
    pub(super) fn figure(&self) -> Option<f64> {
        let outcome = self.outcome.as_ref()?;
        if self.scenario.is_time() { outcome.p50_ms } else { Some(outcome.per_second) }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scenario, settings) = (self.scenario.name(), self.settings.name());
        write!(out, "{scenario:<13}{:>2}  {:<20}{settings:<9}", self.round, self.program)?;
        if let Some(error) = &self.error {
            return write!(out, "failed: {error}");
        }
        let Some(outcome) = &self.outcome else { return Ok(()) };
        write!(out, "{:>9}/s", grouped(outcome.per_second))?;
        if let (true, Some(p50), Some(p99)) = (self.scenario.is_time(), outcome.p50_ms, outcome.p99_ms) {
            write!(out, "  p50 {p50:.2} ms  p99 {p99:.2} ms")?;
        }
        write!(out, "  {:>6} B", grouped(self.wal_bytes_per_job.unwrap_or(0.0)))?;
        if let Some(ratio) = self.ratio {
            write!(out, "  {} of Awa's", times(ratio))?;
        }
        if !outcome.finished {
            write!(out, "  {} of {} completed", outcome.completed, outcome.jobs)?;
        }
        if outcome.handled > outcome.jobs {
            write!(out, "  {} ran twice", outcome.handled - outcome.jobs)?;
        }
        Ok(())
    }
}
