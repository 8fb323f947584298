//! The most expensive statements of a run, those inside functions too, as `pg_stat_statements` counts them.

use serde::Serialize;
use sqlx::{AssertSqlSafe, PgPool, Row as _};

use crate::{Result, database::Scratch};

/// One statement, over all its calls.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Statement {
    /// Its text, shortened.
    pub(crate) text: String,
    /// How often it ran.
    pub(crate) calls: i64,
    /// Time in it, statements inside it included, milliseconds.
    pub(crate) total_ms: f64,
    /// Rows it answered or wrote.
    pub(crate) rows: i64,
    /// Pages of the shared buffers it touched.
    pub(crate) pages: i64,
    /// Bytes it logged.
    pub(crate) wal_bytes: f64,
}

/// Lets the extension count in this database, for sessions that begin later; without `on`, nothing is counted.
pub(crate) async fn track(scratch: &Scratch, on: bool) -> Result {
    let track = if on { "all" } else { "none" };
    let setting = format!("alter database {} set pg_stat_statements.track = '{track}'", scratch.name());
    scratch.on_server(&setting).await?;
    if on {
        let mut connection = scratch.connect().await?;
        sqlx::raw_sql("create extension if not exists pg_stat_statements").execute(&mut connection).await?;
    }
    Ok(())
}

/// Forgets what was counted so far.
pub(crate) async fn reset(pool: &PgPool) -> Result {
    sqlx::raw_sql("select pg_stat_statements_reset()").execute(pool).await?;
    Ok(())
}

/// The statements that took the most time, those inside functions too.
pub(crate) async fn top(pool: &PgPool, count: u32) -> Result<Vec<Statement>> {
    most(pool, count, "true", "total_exec_time").await
}

/// The statements that clients sent most often.
pub(crate) async fn most_sent(pool: &PgPool, count: u32) -> Result<Vec<Statement>> {
    most(pool, count, "toplevel", "calls").await
}

async fn most(pool: &PgPool, count: u32, which: &str, by: &str) -> Result<Vec<Statement>> {
    let query = format!(
        "select left(regexp_replace(query, '\\s+', ' ', 'g'), 150) as text, calls, total_exec_time, rows,
                shared_blks_hit + shared_blks_read as pages, wal_bytes::float8 as wal_bytes
           from pg_stat_statements
          where dbid = (select oid from pg_database where datname = current_database())
            and {which}
          order by {by} desc
          limit {count}"
    );
    let rows = sqlx::query(AssertSqlSafe(query)).fetch_all(pool).await?;
    rows.iter()
        .map(|row| {
            Ok(Statement {
                text: row.try_get("text")?,
                calls: row.try_get("calls")?,
                total_ms: row.try_get("total_exec_time")?,
                rows: row.try_get("rows")?,
                pages: row.try_get("pages")?,
                wal_bytes: row.try_get("wal_bytes")?,
            })
        })
        .collect()
}
