//! An application that indexes the text files of a directory by background jobs: the end-to-end check of Awa.
//!
//! `cargo xtask demo` starts a PostgreSQL and a fleet of these, kills one of them, and judges the result. The jobs are in
//! `jobs.rs`, and what must come out of them in `check.rs`.

mod args;
mod check;
mod coordinate;
mod display;
mod facts;
mod jobs;
mod kinds;
mod observe;
mod report;
mod scan;
mod store;
mod total;
mod watch;
mod work;

use args::{Cli, Role};
use clap::Parser as _;
use sqlx::postgres::PgPoolOptions;
use std::{error::Error, process::ExitCode};

/// Connections of the application itself, beside those of Awa.
const CONNECTIONS: u32 = 8;

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<(), Box<dyn Error>> {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&cli.database_url).await?;
    match cli.role {
        Role::Coordinate(options) => coordinate::run(pool, options).await,
        Role::Work(options) => work::run(pool, options).await,
        Role::Watch(options) => watch::run(pool, options).await,
    }
}
