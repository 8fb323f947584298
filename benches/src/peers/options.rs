//! What can be chosen, and what a peer is called with.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

/// How long may pass between two lines of a peer beyond what it was told.
const SPARE: Duration = Duration::from_secs(60);
/// How long a peer may take to set itself up and to fill its queue: some enqueue a few thousand a second.
pub(super) const PREPARATION_MAX: Duration = Duration::from_secs(300);
/// How long a run with `--quick` lasts.
const QUICK_S: u64 = 2;
/// Jobs of `drain` with `--quick`.
const QUICK_JOBS: u64 = 2_000;
/// How long one with `--quick` waits for the last jobs.
const QUICK_LIMIT_S: u64 = 10;

/// Of `peers`. How often everything runs is `--runs`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The list of programs, as `cargo xtask bench peers` writes it.
    #[arg(long)]
    pub(super) programs: PathBuf,
    /// How long jobs are enqueued in a run.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Jobs of `drain`.
    #[arg(long, default_value_t = 50_000)]
    jobs: u64,
    /// How long a run waits for the last job to be completed. What is completed by then counts.
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Two seconds a run, 2,000 jobs, one round: to see that everything works. The figures mean nothing.
    #[arg(long)]
    quick: bool,
    /// These peers only.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// These scenarios only.
    #[arg(long, value_enum, value_delimiter = ',')]
    scenarios: Vec<Scenario>,
    /// These settings of the peers only. Awa is always measured against at its best.
    #[arg(long, value_enum, value_delimiter = ',')]
    settings: Vec<Settings>,
    /// Add to what the file of `--json` has, from the same machine, instead of beginning anew.
    #[arg(long)]
    pub(super) add: bool,
    /// Put the table into this file, between its markers, instead of printing it.
    #[arg(long)]
    pub(super) readme: Option<PathBuf>,
}

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Scenario {
    Sustained,
    Drain,
    EnqueueOne,
    EnqueueMany,
    Latency,
    Pickup,
}

impl Scenario {
    /// All, in the order of the table.
    pub(super) const ALL: [Self; 6] =
        [Self::Sustained, Self::Drain, Self::EnqueueOne, Self::EnqueueMany, Self::Latency, Self::Pickup];

    /// Its name, as a peer knows it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sustained => "sustained",
            Self::Drain => "drain",
            Self::EnqueueOne => "enqueue-one",
            Self::EnqueueMany => "enqueue-many",
            Self::Latency => "latency",
            Self::Pickup => "pickup",
        }
    }

    /// Whether its figure is a time rather than a rate.
    pub(super) const fn is_time(self) -> bool {
        matches!(self, Self::Latency | Self::Pickup)
    }
}

/// How a peer is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Settings {
    Best,
    Defaults,
}

impl Settings {
    /// Its name, as a peer knows it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Defaults => "defaults",
        }
    }
}

impl Options {
    /// Rounds, of `runs` that were asked for.
    pub(super) const fn rounds(&self, runs: u32) -> u32 {
        if self.quick { 1 } else { runs }
    }

    pub(super) fn scenarios(&self) -> Vec<Scenario> {
        if self.scenarios.is_empty() { Scenario::ALL.to_vec() } else { self.scenarios.clone() }
    }

    pub(super) fn settings(&self) -> Vec<Settings> {
        if self.settings.is_empty() { vec![Settings::Best, Settings::Defaults] } else { self.settings.clone() }
    }

    pub(super) fn wants(&self, peer: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == peer)
    }

    /// The words that a peer is called with.
    pub(super) fn words(&self, scenario: Scenario, settings: Settings) -> Vec<String> {
        let number = |full: u64, quick: u64| if self.quick { quick } else { full }.to_string();
        let (seconds, jobs) = (number(self.seconds, QUICK_S), number(self.jobs, QUICK_JOBS));
        let limit = number(self.limit, QUICK_LIMIT_S);
        let words = [scenario.name(), "--json", "--settings", settings.name(), "--seconds", &seconds];
        words.into_iter().chain(["--jobs", &jobs, "--limit", &limit]).map(str::to_owned).collect()
    }

    /// How long a run may take in all.
    pub(super) const fn run_max(&self) -> Duration {
        Duration::from_secs(self.seconds + 2 * self.limit).saturating_add(SPARE)
    }
}
