//! Databases on a server: connecting from commands that are not async, and scratch databases that go away again.

use std::future::Future;
use std::str::FromStr as _;

use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

use crate::command::Result;

/// Runs async code to its end.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A pool of one connection. Errors of parsing do not quote the URL: it may hold a password.
pub(crate) fn pool(url: &str) -> Result<PgPool> {
    let options = PgConnectOptions::from_str(url).map_err(|_| "the database URL cannot be read")?;
    Ok(PgPoolOptions::new().max_connections(1).connect_lazy_with(options))
}

/// A database of this command, dropped with the value.
pub(crate) struct Scratch {
    server: PgConnectOptions,
    name: String,
}

impl Scratch {
    /// Makes a migrated database on the server of `url`.
    pub(crate) fn migrated(url: &str) -> Result<Self> {
        let server = PgConnectOptions::from_str(url).map_err(|_| "the database URL cannot be read")?;
        let name = format!("awa_xtask_{}", std::process::id());
        let scratch = Self { server, name };
        scratch.on_server("drop database if exists")?;
        scratch.on_server("create database")?;
        block_on(async {
            let pool = pool(&scratch.url())?;
            awa_migrations::migrate(&pool).await.map_err(chain)?;
            pool.close().await;
            Ok(())
        })?;
        Ok(scratch)
    }

    /// The URL of the database.
    pub(crate) fn url(&self) -> String {
        self.server.clone().database(&self.name).to_url_lossy().to_string()
    }

    fn on_server(&self, statement: &str) -> Result {
        block_on(async {
            let mut connection = self.server.connect().await?;
            sqlx::raw_sql(AssertSqlSafe(format!("{statement} {}", self.name))).execute(&mut connection).await?;
            connection.close().await?;
            Ok(())
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.on_server("drop database if exists") {
            eprintln!("database {} stays behind: {error}", self.name);
        }
    }
}

/// An error with its causes on one line.
pub(crate) fn chain(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
