//! `cargo xtask demo`: the main job on a fresh machine. Enqueues an index of this repository's files, runs three worker
//! processes, kills one while it holds jobs, and lets the application judge what came out.
//!
//! The application is `awa-worker/examples/demo`. It runs as programs, so that a kill is a kill.

mod fleet;
mod victim;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::command::{Result, cargo, output, workspace};
use crate::database;
use fleet::Fleet;

/// Worker processes at the start. One of them will not see the end.
const WORKERS: usize = 3;

/// Options of `cargo xtask demo`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// File jobs to run: as many as there are files if not given; more index files again.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    jobs: Option<u32>,
    /// What to index, instead of this repository.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Leave the server and the workers running at the end, and say how to stop them.
    #[arg(long)]
    pub(crate) keep: bool,
    /// Use this database instead of a private server. The schemas `awa` and `indexer` are installed there.
    #[arg(long)]
    pub(crate) database_url: Option<String>,
}

/// What the application said about the run that it enqueued.
struct Run {
    id: i64,
    items: i64,
}

/// Runs the demo against `url`; an error says what was not as it should be.
pub(crate) async fn demo(options: &Options, url: &str) -> Result {
    let application = Application { program: build()?, url };
    let directory = options.directory.clone().unwrap_or_else(workspace);
    let run = application.coordinate(&directory, options.jobs)?;
    let mut fleet = Fleet::start(&application, WORKERS)?;
    let mut watch = application.watch(&directory, &run)?;
    let killed = kill_one(&mut fleet, &mut watch, url, run.id).await;
    if killed.is_err() {
        watch.kill()?;
    }
    let verdict = watch.wait()?;
    killed?;
    if !verdict.success() {
        return Err(format!("the demo went wrong; what the workers said is in {}", fleet.logs().display()).into());
    }
    if options.keep { fleet.leave() } else { fleet.stop().await }
}

/// Kills one worker, and tells the onlooker which and what it held.
async fn kill_one(fleet: &mut Fleet, watch: &mut Child, url: &str, run: i64) -> Result {
    let pool = database::pool(url)?;
    let killed = victim::kill_one(&pool, fleet, run).await?;
    pool.close().await;
    let note = serde_json::json!({ "say": killed.to_string(), "killed": killed.orphans() });
    let notes = watch.stdin.as_mut().ok_or("the onlooker takes no notes")?;
    writeln!(notes, "{note}")?;
    Ok(())
}

/// Builds the application and finds out where it was put.
fn build() -> Result<PathBuf> {
    println!("building the application");
    // With the features of a build of all, so that what other commands have built is not built anew.
    let mut build = cargo(["build", "--quiet", "--workspace", "--example", "demo"]);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    output(&mut build)?
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "demo")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo does not say where the application is".into())
}

/// The example as a program, on one database.
struct Application<'a> {
    program: PathBuf,
    url: &'a str,
}

impl Application<'_> {
    /// A process in one of its roles. The URL goes by the environment: command lines can be read by everyone.
    fn command(&self, role: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("DATABASE_URL", self.url).arg(role);
        command
    }

    /// Migrates and enqueues.
    fn coordinate(&self, directory: &Path, jobs: Option<u32>) -> Result<Run> {
        let mut command = self.command("coordinate");
        command.arg("--directory").arg(directory);
        if let Some(jobs) = jobs {
            command.args(["--jobs", &jobs.to_string()]);
        }
        let run: Value = serde_json::from_str(&output(&mut command)?)?;
        let number = |name: &str| run[name].as_i64().ok_or_else(|| format!("the application does not tell {name}"));
        println!(
            "run {}: {} file jobs for {} files under {}, enqueued in one transaction",
            number("run")?,
            number("items")?,
            number("files")?,
            directory.display(),
        );
        println!(
            "the unique job is {}; enqueued again, it was reported as a duplicate of that",
            number("duplicate_of")?
        );
        Ok(Run { id: number("run")?, items: number("items")? })
    }

    /// The onlooker shows progress on our terminal, takes notes on its standard input, and judges at the end.
    fn watch(&self, directory: &Path, run: &Run) -> Result<Child> {
        let mut command = self.command("watch");
        command.args(["--expect-kill", "--run", &run.id.to_string(), "--items", &run.items.to_string()]);
        Ok(command.arg("--directory").arg(directory).stdin(Stdio::piped()).spawn()?)
    }
}
