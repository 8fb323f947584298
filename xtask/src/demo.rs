//! `cargo xtask demo`: the main job on a fresh machine.

use crate::command::{Result, cargo, run};

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// File jobs to run.
    #[arg(long)]
    jobs: Option<u32>,
    /// Leave the server running at the end, and print its URL.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Use this database instead of a private server.
    #[arg(long)]
    pub(crate) database_url: Option<String>,
}

/// Runs the demo against `url`; an error says what was not as it should be.
pub(crate) async fn demo(options: &Options, url: &str) -> Result {
    let mut example = cargo(["run", "-q", "-p", "awa-worker", "--example", "demo", "--", "--database-url", url]);
    if let Some(jobs) = options.jobs {
        example.arg("--jobs").arg(jobs.to_string());
    }
    run(&mut example)
}
