//! The commands of this repository: `cargo xtask <command>`.
//!
//! One file a command. Those that need a database start a private PostgreSQL and leave the developer's alone; only
//! `migrate` and `pg` look at `DATABASE_URL`.

mod bench;
mod ci;
mod command;
mod database;
mod demo;
mod migrate;
mod pg;
mod pooler;
mod postgres;
mod schema;
mod sqlx;
mod test;
mod test_server;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use command::Result;
use postgres::{Profile, Target};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Commands of this repository", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a fleet of workers on real files, lose one, and check the result.
    Demo(demo::Options),
    /// Run every test on a private PostgreSQL.
    Test(test::Options),
    /// Install or inspect the schema in a database.
    Migrate(migrate::Options),
    /// The private server, for development.
    #[command(subcommand)]
    Pg(pg::Action),
    /// Measure a scenario; see benches/README.md.
    Bench(bench::Options),
    /// Write the query metadata of awa-storage.
    Sqlx(sqlx::Options),
    /// Write docs/schema.sql.
    Schema(schema::Options),
    /// Check the rules that machines keep.
    Tidy(tidy::Options),
    /// Run all checks.
    Ci,
    /// A server for one test, which tells it when to stop and start.
    #[command(hide = true)]
    TestServer,
    /// Stop a server when the command that started it is gone.
    #[command(hide = true)]
    KeepServer(postgres::KeeperOptions),
}

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result {
    match command {
        Command::Demo(options) => demo(options),
        Command::Test(options) => test::test(options),
        Command::Migrate(options) => migrate::migrate(options),
        Command::Pg(action) => pg::pg(action),
        Command::Bench(options) => bench::bench(options),
        Command::Sqlx(options) => sqlx::sqlx(options),
        Command::Schema(options) => schema::schema(options),
        Command::Tidy(options) => tidy::tidy(options),
        Command::Ci => ci::ci(),
        Command::TestServer => test_server::serve(),
        Command::KeepServer(options) => postgres::keep(options),
    }
}

/// The demo on a server of its own, which stays if that was asked for.
fn demo(options: &demo::Options) -> Result {
    let server = Target::choose(options.database_url.as_deref(), Profile::Durable, None)?;
    let url = server.url();
    database::block_on(demo::demo(options, &url))?;
    if options.keep {
        println!("the database stays: {url}");
        server.leave();
    }
    Ok(())
}
