//! `cargo xtask bench`: builds the bench program in release and runs it on a private server set as for production.

use std::process::Command;

use crate::command::{Result, cargo, run, target_directory};
use crate::postgres::{Profile, Target};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure; benches/README.md lists the scenarios.
    scenario: String,
    /// Version of PostgreSQL.
    #[arg(long, value_parser = clap::value_parser!(u32).range(14..), conflicts_with = "database_url")]
    pg: Option<u32>,
    /// Use this server instead: databases are made and dropped there.
    #[arg(long)]
    database_url: Option<String>,
    /// Arguments of the scenario, such as `--seconds 60` or `--json FILE`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds first, so that compiling does not compete with the server.
pub(crate) fn bench(options: &Options) -> Result {
    run(&mut cargo(["build", "--release", "-p", "awa-benches", "--bin", "awa-bench"]))?;
    let server = Target::choose(options.database_url.as_deref(), Profile::Bench, options.pg)?;
    let mut program = Command::new(target_directory().join("release/awa-bench"));
    program.arg(&options.scenario).args(["--database-url", &server.url()]).args(&options.arguments);
    run(program.env_remove("DATABASE_URL"))
}
