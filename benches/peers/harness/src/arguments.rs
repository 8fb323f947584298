//! The command line. The URL may come by the environment, since command lines can be read by everyone.

use std::time::Duration;

use crate::{Result, Settings};

/// How to call a peer.
pub(crate) const USAGE: &str = "peer-NAME sustained|drain|enqueue-one|enqueue-many|latency|pickup [--database-url URL] \
    [--seconds S] [--jobs N] [--limit S] [--settings best|defaults] [--json]";

/// What runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Eight producers beside one worker.
    Sustained,
    /// A worker against a full queue.
    Drain,
    /// One producer, one job a transaction.
    EnqueueOne,
    /// One producer, many jobs a call.
    EnqueueMany,
    /// Five hundred single jobs a second.
    Latency,
    /// One job at a time to an idle worker.
    Pickup,
}

impl Scenario {
    /// All, by their names.
    const NAMES: [(&'static str, Self); 6] = [
        ("sustained", Self::Sustained),
        ("drain", Self::Drain),
        ("enqueue-one", Self::EnqueueOne),
        ("enqueue-many", Self::EnqueueMany),
        ("latency", Self::Latency),
        ("pickup", Self::Pickup),
    ];

    fn named(text: &str) -> Option<Self> {
        Self::NAMES.into_iter().find_map(|(name, scenario)| (name == text).then_some(scenario))
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.into_iter().find_map(|(name, scenario)| (scenario == self).then_some(name)).unwrap_or_default()
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) scenario: Scenario,
    pub(crate) database_url: String,
    /// How long jobs are enqueued.
    pub(crate) seconds: Duration,
    /// Jobs of `drain`.
    pub(crate) jobs: u64,
    /// How long is waited for the last job to be completed.
    pub(crate) limit: Duration,
    pub(crate) settings: Settings,
}

impl Arguments {
    /// Reads what follows the program's name.
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let name = words.next().ok_or("no scenario")?;
        let mut arguments = Self {
            scenario: Scenario::named(&name).ok_or_else(|| format!("there is no scenario {name}"))?,
            database_url: std::env::var("DATABASE_URL").unwrap_or_default(),
            seconds: Duration::from_secs(10),
            jobs: 50_000,
            limit: Duration::from_secs(60),
            settings: Settings::Best,
        };
        while let Some(option) = words.next() {
            if option == "--json" {
                continue; // There is no other form; it is accepted so that a call says what it expects.
            }
            let value = words.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--database-url" => arguments.database_url = value,
                "--seconds" => arguments.seconds = Duration::from_secs(value.parse()?),
                "--jobs" => arguments.jobs = value.parse()?,
                "--limit" => arguments.limit = Duration::from_secs(value.parse()?),
                "--settings" => arguments.settings = settings(&value)?,
                _ => return Err(format!("there is no option {option}").into()),
            }
        }
        if arguments.database_url.is_empty() {
            return Err("no --database-url, and no DATABASE_URL".into());
        }
        Ok(arguments)
    }
}

fn settings(text: &str) -> Result<Settings> {
    match text {
        "best" => Ok(Settings::Best),
        "defaults" => Ok(Settings::Defaults),
        _ => Err(format!("settings are best or defaults, not {text}").into()),
    }
}
