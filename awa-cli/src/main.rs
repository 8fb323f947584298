//! `awa`: the commands an operator has at hand where awa runs, without this repository.
//!
//! Exit codes, for scripts: 0 done; 1 failed; 2 not understood; 3 the schema is not the one of this binary (`migrate
//! --status`); 4 the schema is newer than this binary, which then changed nothing.

mod command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "awa", version, about = "Awa job queue: commands for operators", after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 failed; 2 not understood; 3 `migrate --status` found another schema than \
this binary needs; 4 the schema is newer than this binary, nothing was changed.";

#[derive(Subcommand)]
enum Command {
    /// Do the maintenance of a fleet in this process, until it is stopped, or once: promotion, schedules, rescue, retention.
    Maintain(command::maintain::Options),
    /// Install or update awa's schema in a database, or say what would be done.
    Migrate(command::migrate::Options),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Maintain(options) => command::maintain::run(options).await,
        Command::Migrate(options) => command::migrate::run(options).await,
    }
}
