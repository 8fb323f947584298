//! What a run costs: log, full-page images, transactions, HOT updates, growth, CPU time. A reading before, a reading after, and the difference.

use std::collections::BTreeMap;

use sqlx::{PgPool, Row as _};

use crate::{Result, processor, runtime};

/// Reads the counters of one database and its server.
pub(crate) struct Meter {
    pool: PgPool,
    server: Option<processor::Server>,
    first: Reading,
}

#[derive(Clone, Debug, Default)]
struct Reading {
    lsn: f64,
    images: f64,
    transactions: f64,
    table_bytes: f64,
    updates: f64,
    hot_updates: f64,
    server_seconds: Option<f64>,
    own_seconds: BTreeMap<String, f64>,
}

/// What was spent between two readings.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cost {
    /// Bytes of log.
    pub(crate) wal_bytes: f64,
    /// Full-page images in it.
    pub(crate) images: f64,
    /// Transactions of this database that have ended; sessions report them late, by a second.
    pub(crate) transactions: f64,
    /// Bytes that the tables of Awa have grown by.
    pub(crate) growth_bytes: f64,
    /// CPU time of the server, without the sampler's backend.
    pub(crate) server_seconds: Option<f64>,
    /// CPU time of this process, by thread.
    pub(crate) own_seconds: BTreeMap<String, f64>,
}

impl Meter {
    /// Starts with a checkpoint, so that none falls into a run of usual length, and all runs begin alike.
    pub(crate) async fn start(pool: PgPool) -> Result<Self> {
        sqlx::raw_sql("checkpoint").execute(&pool).await?;
        let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&pool).await?;
        let server = processor::Server::of_backend(backend);
        let mut meter = Self { pool, server, first: Reading::default() };
        meter.first = meter.read().await?;
        Ok(meter)
    }

    async fn read(&self) -> Result<Reading> {
        let row = sqlx::query(
            "select (pg_current_wal_lsn() - '0/0')::float8 as lsn,
                    (select wal_fpi::float8 from pg_stat_wal) as images,
                    (select (xact_commit + xact_rollback)::float8 from pg_stat_database
                      where datname = current_database()) as transactions,
                    (select coalesce(sum(pg_total_relation_size(oid)), 0)::float8 from pg_class
                      where relnamespace = 'awa'::regnamespace and relkind = 'r') as table_bytes,
                    (select coalesce(sum(n_tup_upd), 0)::float8 from pg_stat_user_tables
                      where schemaname = 'awa' and relname ~ '^jobs_hot_[0-7]$') as updates,
                    (select coalesce(sum(n_tup_hot_upd), 0)::float8 from pg_stat_user_tables
                      where schemaname = 'awa' and relname ~ '^jobs_hot_[0-7]$') as hot_updates",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Reading {
            lsn: row.try_get("lsn")?,
            images: row.try_get("images")?,
            transactions: row.try_get("transactions")?,
            table_bytes: row.try_get("table_bytes")?,
            updates: row.try_get("updates")?,
            hot_updates: row.try_get("hot_updates")?,
            server_seconds: self.server.and_then(processor::Server::seconds),
            own_seconds: runtime::seconds(),
        })
    }

    /// What was spent since the start; `sampler_seconds` of the server's CPU time are not the scenario's.
    pub(crate) async fn cost(&self, sampler_seconds: f64) -> Result<Cost> {
        let now = self.read().await?;
        let own_seconds = now
            .own_seconds
            .into_iter()
            .map(|(thread, seconds)| {
                let before = self.first.own_seconds.get(&thread).copied().unwrap_or(0.0);
                (thread, seconds - before)
            })
            .collect();
        Ok(Cost {
            wal_bytes: now.lsn - self.first.lsn,
            images: now.images - self.first.images,
            transactions: now.transactions - self.first.transactions,
            growth_bytes: now.table_bytes - self.first.table_bytes,
            server_seconds: now
                .server_seconds
                .zip(self.first.server_seconds)
                .map(|(after, before)| after - before - sampler_seconds),
            own_seconds,
        })
    }

    /// The share of updates in the ring that were HOT. Ask when the sessions that made them have ended: they report late.
    pub(crate) async fn hot_ratio(&self) -> Result<Option<f64>> {
        let now = self.read().await?;
        let updates = now.updates - self.first.updates;
        Ok((updates > 0.0).then(|| (now.hot_updates - self.first.hot_updates) / updates))
    }
}
