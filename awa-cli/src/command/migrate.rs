//! `awa migrate`: for deployments that migrate in a step of their own, and for databases that services may not alter.

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr as _;

use awa_storage::schema::{self, Error};
use serde_json::Value;
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions as _, Connection as _};

use super::{NO_URL, fail};

const NOT_CURRENT: u8 = 3;
const TOO_NEW: u8 = 4;

/// Arguments of `migrate`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The database. Its URL is never printed, since it may hold a password.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true, required_unless_present = "print")]
    database_url: Option<String>,
    /// Say what the database has and what would be done; change nothing. Exit code 3 if there is something to do.
    #[arg(long, conflicts_with = "print")]
    status: bool,
    /// Print the whole schema as SQL for psql and an empty database; no database is needed.
    #[arg(long, conflicts_with = "json")]
    print: bool,
    /// Answer in JSON on one line.
    #[arg(long)]
    json: bool,
}

/// Does it and says so.
pub(crate) async fn run(options: Options) -> ExitCode {
    if options.print {
        print!("{}", schema::script());
        return ExitCode::SUCCESS;
    }
    // What is wrong with a URL is not told, because that may quote the password.
    let Some(database) = options.database_url.as_deref().and_then(|url| PgConnectOptions::from_str(url).ok()) else {
        eprintln!("{NO_URL}");
        return ExitCode::from(2);
    };
    match on(database, &options).await {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

async fn on(database: PgConnectOptions, options: &Options) -> Result<ExitCode, Error> {
    let database = database.application_name("awa migrate");
    // A pool would try for half a minute to reach a server that is not there.
    database.connect().await?.close().await?;
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(database);
    let code = if options.status { status(&pool, options.json).await? } else { migrate(&pool, options.json).await? };
    pool.close().await;
    Ok(code)
}

async fn status(pool: &PgPool, json: bool) -> Result<ExitCode, Error> {
    let status = schema::status(pool).await?;
    show(json, &status, serde_json::to_value(&status));
    Ok(if status.is_current() { ExitCode::SUCCESS } else { ExitCode::from(NOT_CURRENT) })
}

async fn migrate(pool: &PgPool, json: bool) -> Result<ExitCode, Error> {
    let report = schema::migrate(pool).await?;
    show(json, &report, serde_json::to_value(&report));
    Ok(ExitCode::SUCCESS)
}

fn show(json: bool, text: &impl Display, value: serde_json::Result<Value>) {
    match value {
        Ok(value) if json => println!("{value}"),
        _ => println!("{text}"),
    }
}

fn failed(error: &Error) -> ExitCode {
    let code = fail(error);
    if matches!(error, Error::TooNew { .. }) { ExitCode::from(TOO_NEW) } else { code }
}
