//! `cargo xtask migrate`: what `awa migrate` does, without building more than the migrations.

use std::fmt::Display;

use crate::command::Result;
use crate::database::{block_on, chain, pool};

/// Arguments of `migrate`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The database to migrate.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// Say what the database has and what would be done; change nothing.
    #[arg(long, conflicts_with = "print")]
    status: bool,
    /// Print the whole schema as SQL for psql; no database is needed.
    #[arg(long, conflicts_with = "json")]
    print: bool,
    /// Answer in JSON.
    #[arg(long)]
    json: bool,
}

/// Migrates, or says what would be done.
pub(crate) fn migrate(options: &Options) -> Result {
    if options.print {
        print!("{}", awa_migrations::script());
        return Ok(());
    }
    let url = options.database_url.as_deref().ok_or("give --database-url or set DATABASE_URL")?;
    block_on(async {
        let pool = pool(url)?;
        if options.status {
            let status = awa_migrations::status(&pool).await.map_err(chain)?;
            show(options.json, &status, &serde_json::to_string(&status)?);
        } else {
            let report = awa_migrations::migrate(&pool).await.map_err(chain)?;
            show(options.json, &report, &serde_json::to_string(&report)?);
        }
        pool.close().await;
        Ok(())
    })
}

fn show(as_json: bool, text: &impl Display, json: &str) {
    if as_json {
        println!("{json}");
    } else {
        println!("{text}");
    }
}
