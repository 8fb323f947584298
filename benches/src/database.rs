//! The database of one run: made, migrated, set to a short retention, and dropped at the end.

use std::{
    process,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::{Bench, Result};

/// Completed jobs are kept this long here, so that a run of a minute sees segments emptied.
const RETENTION: &str = "60 seconds";

/// A database that nobody else uses.
pub(crate) struct Scratch {
    server: PgConnectOptions,
    name: String,
}

impl Scratch {
    /// Makes one on the server of `bench` and migrates it.
    pub(crate) async fn new(bench: &Bench) -> Result<Self> {
        let scratch = Self::empty(bench).await?;
        let pool = scratch.pool(1);
        awa_storage::schema::migrate(&pool).await?;
        sqlx::query("update awa.ring set completed_retention = $1::text::interval")
            .bind(RETENTION)
            .execute(&pool)
            .await?;
        pool.close().await;
        Ok(scratch)
    }

    /// Makes one with nothing in it.
    pub(crate) async fn empty(bench: &Bench) -> Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("awa_bench_{}_{}", process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let scratch = Self { server: bench.server.clone(), name };
        scratch.on_server(&format!("create database {}", scratch.name)).await?;
        Ok(scratch)
    }

    /// A pool of `connections`, of the runtime that this is called in.
    pub(crate) fn pool(&self, connections: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(connections)
            .acquire_timeout(Duration::from_secs(60))
            .connect_lazy_with(self.options())
    }

    /// How to connect to it.
    pub(crate) fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name).application_name("awa-bench")
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<PgConnection> {
        Ok(self.options().connect().await?)
    }

    /// A second, empty database on the same server.
    pub(crate) async fn beside(&self) -> Result<Self> {
        let other = Self { server: self.server.clone(), name: format!("{}_other", self.name) };
        other.on_server(&format!("create database {}", other.name)).await?;
        Ok(other)
    }

    /// Drops the database.
    pub(crate) async fn drop(self) -> Result {
        self.on_server(&format!("drop database {} with (force)", self.name)).await
    }

    /// Runs one statement in the server's own database.
    pub(crate) async fn on_server(&self, statement: &str) -> Result {
        let mut connection = self.server.connect().await?;
        connection.execute(AssertSqlSafe(statement.to_owned())).await?;
        connection.close().await?;
        Ok(())
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
