//! `cargo xtask bench`: builds the bench program in release and runs it on a private server set as for production.

use std::process::Command;

use crate::command::{Result, cargo, run, target_directory};
use crate::postgres::{Profile, Target};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure; benches/README.md lists the scenarios.
    scenario: String,
    /// Arguments of the scenario, such as `--seconds 60`, `--runs 3` or `--json FILE`. Two are for this command: `--pg
    /// MAJOR` asks for a version of PostgreSQL, `--database-url URL` for a server on which databases are made and dropped.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds first, so that compiling does not compete with the server.
pub(crate) fn bench(options: &Options) -> Result {
    let mut arguments = options.arguments.clone();
    let url = take(&mut arguments, "--database-url")?;
    let major = take(&mut arguments, "--pg")?.map(|major| major.parse()).transpose()?;
    run(&mut cargo(["build", "--release", "-p", "awa-benches", "--bin", "awa-bench"]))?;
    let server = Target::choose(url.as_deref(), Profile::Bench, major)?;
    let mut program = Command::new(target_directory().join("release/awa-bench"));
    program.arg(&options.scenario).args(["--database-url", &server.url()]).args(arguments);
    run(program.env_remove("DATABASE_URL"))
}

/// Takes `name VALUE` or `name=VALUE` out of arguments whose other names are those of another program.
fn take(arguments: &mut Vec<String>, name: &str) -> Result<Option<String>> {
    let assigned = format!("{name}=");
    let Some(place) = arguments.iter().position(|one| one == name || one.starts_with(&assigned)) else {
        return Ok(None);
    };
    let found = arguments.remove(place);
    if let Some(value) = found.strip_prefix(&assigned) {
        return Ok(Some(value.to_owned()));
    }
    if place == arguments.len() {
        return Err(format!("{name} needs a value").into());
    }
    Ok(Some(arguments.remove(place)))
}
