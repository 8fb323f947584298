//! `awa-bench`: one scenario, end to end, on a server that somebody else has started. `cargo xtask bench` does that.
//!
//! Map: [`scenario`] has a file for each scenario; [`database`] makes the database of one run; [`producer`] and [`consumer`]
//! are what runs; [`claims`] times what the worker takes; [`sampler`] counts in the database, once a second, what has been completed; [`meter`] and [`processor`]
//! read what it cost; [`report`] says so, [`charts`] draws it; [`process`] lets workers run in processes of their own.
//! [`peers`] measures other queues in turn with Awa, by programs of their own.

mod charts;
mod claims;
mod consumer;
mod database;
mod jobs;
mod meter;
mod numbers;
mod peers;
mod pin;
mod process;
mod processor;
mod producer;
mod report;
mod runtime;
mod sampler;
mod scenario;
mod seed;
mod statements;

use std::{fs, path::PathBuf, process::ExitCode, str::FromStr as _};

use clap::Parser;
use sqlx::postgres::PgConnectOptions;
use tracing_subscriber::{Layer as _, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use crate::{report::Report, scenario::Scenario};

/// What every step answers: its value, or the reason why there is no measurement.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(name = "awa-bench", about = "End-to-end measurements of Awa", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// A role there must be allowed to create databases and to read statistics.
    #[arg(long, global = true, default_value = "postgres://postgres@127.0.0.1:5432/postgres")]
    database_url: String,
    /// Write the report of the median run here, as JSON, and beside it charts as SVG: the rate by seconds, the latency by
    /// percentiles.
    #[arg(long, global = true)]
    json: Option<PathBuf>,
    /// Run the scenario this often, each time in a database of its own, and report the median run.
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Show this many of the most expensive statements, those inside functions too. Slows everything down.
    #[arg(long, global = true)]
    statements: Option<u32>,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(flatten)]
    Scenario(Scenario),
    /// Other queues, each in turn with Awa.
    Peers(peers::Options),
}

/// What a scenario is given: the server, and how to look at it.
struct Bench {
    server: PgConnectOptions,
    statements: Option<u32>,
}

fn main() -> ExitCode {
    let wanted = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "warn,sqlx=error".into());
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr).with_filter(wanted);
    tracing_subscriber::registry().with(lines).with(claims::layer()).init();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result {
    let bench = Bench {
        // An error of parsing may quote the URL, and with it a password.
        server: PgConnectOptions::from_str(&arguments.database_url).map_err(|_| "the database URL cannot be read")?,
        statements: arguments.statements,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scenario = match &arguments.command {
        Command::Scenario(Scenario::Work(options)) => return runtime.block_on(process::work(options, bench.server)),
        Command::Scenario(scenario) => scenario,
        Command::Peers(options) => return runtime.block_on(peers::run(options, arguments, &bench)),
    };
    let mut reports = Vec::new();
    for run in 1..=arguments.runs {
        println!("{} ({run} of {})", scenario.name(), arguments.runs);
        let report = runtime.block_on(scenario.run(&bench))?;
        print!("{report}");
        reports.push(report);
    }
    let report = Report::median(reports).ok_or("no run")?;
    if arguments.runs > 1 {
        print!("median run\n{report}");
    }
    if let Some(path) = &arguments.json {
        fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
        charts::write(&report, path)?;
    }
    Ok(())
}
