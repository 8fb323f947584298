//! `cargo xtask bench`: builds the bench program in release and runs it on a private server set as for production.

mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Result, cargo, run, target_directory};
use crate::postgres::{Profile, Target};

/// Arguments of `bench`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// What to measure; benches/README.md lists the scenarios.
    scenario: String,
    /// Arguments of the scenario, such as `--seconds 60`, `--runs 3` or `--json FILE`. Three are for this command: `--pg
    /// MAJOR` asks for a version of PostgreSQL, `--database-url URL` for a server on which databases are made and dropped,
    /// and `--profile dev` for programs that are built soon rather than fast.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

/// Builds first, so that compiling does not compete with the server.
pub(crate) fn bench(options: &Options) -> Result {
    let mut arguments = options.arguments.clone();
    let url = take(&mut arguments, "--database-url")?;
    let major = take(&mut arguments, "--pg")?.map(|major| major.parse()).transpose()?;
    let profile = take(&mut arguments, "--profile")?.unwrap_or_else(|| "release".to_owned());
    // What is measured is built alone, with its own features; what is only tried, with those of everything else, tests included,
    // which cargo counts in as soon as an example is among what it builds.
    let packages: &[&str] =
        if profile == "dev" { &["--workspace", "--example", "quickstart"] } else { &["-p", "awa-benches"] };
    let mut build = cargo(["build", "--bin", "awa-bench", "--profile", &profile]);
    if profile == "dev" {
        // What other people wrote is as the tests have built it; this here is little, and nothing like itself without any.
        build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
    }
    run(build.args(packages))?;
    let peers = if options.scenario == "peers" { Some(peers::prepare(&profile)?) } else { None };
    let server = Target::choose(url.as_deref(), Profile::Bench, major)?;
    let mut program = Command::new(built(&target_directory(), &profile).join("awa-bench"));
    program.arg(&options.scenario).args(["--database-url", &server.url()]).args(arguments);
    if let Some(list) = peers {
        program.arg("--programs").arg(list);
    }
    run(program.env_remove("DATABASE_URL"))
}

/// Where cargo puts what it builds by a profile.
fn built(target: &Path, profile: &str) -> PathBuf {
    target.join(if profile == "dev" { "debug" } else { profile })
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
