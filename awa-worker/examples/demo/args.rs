//! The command line of the application: one binary, three roles.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Indexes the text files of a directory by jobs. `cargo xtask demo` runs all of it; the parts can be run by hand.
#[derive(Parser)]
pub(crate) struct Cli {
    /// The database of the application, in which Awa's schema is installed too.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub(crate) database_url: String,
    #[command(subcommand)]
    pub(crate) role: Role,
}

#[derive(Subcommand)]
pub(crate) enum Role {
    /// Installs the schema, enqueues the jobs of a run in one transaction, and prints the run as JSON.
    Coordinate(Coordinate),
    /// Runs jobs until it is told to stop.
    Work(Work),
    /// Shows how a run comes along, then the result and whether it is right.
    Watch(Watch),
}

#[derive(Args)]
pub(crate) struct Coordinate {
    /// What to index.
    #[arg(long, default_value = ".")]
    pub(crate) directory: PathBuf,
    /// How many file jobs; as many as there are files if not given. More than that index files again.
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=1_000_000))]
    pub(crate) jobs: Option<i32>,
}

#[derive(Args)]
pub(crate) struct Work {
    /// A name for people; ownership of jobs goes by an id of the process.
    #[arg(long, default_value = "worker")]
    pub(crate) name: String,
    /// How many jobs at once.
    #[arg(long, default_value_t = 8)]
    pub(crate) jobs_at_once: usize,
}

#[derive(Args)]
pub(crate) struct Watch {
    /// The run to watch.
    #[arg(long)]
    pub(crate) run: i64,
    /// What the run indexes.
    #[arg(long, default_value = ".")]
    pub(crate) directory: PathBuf,
    /// How many file jobs the run has.
    #[arg(long)]
    pub(crate) items: i32,
    /// A worker will be killed: a line on standard input says what it held, and the check expects its rescue.
    #[arg(long)]
    pub(crate) expect_kill: bool,
    /// Give up when nothing has changed for so many seconds.
    #[arg(long, default_value_t = 60)]
    pub(crate) patience: u64,
}
