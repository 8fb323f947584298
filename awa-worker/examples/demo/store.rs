//! The application's own tables. They know nothing of the queue, except that a job may run more than once: each write names
//! its row, and writing it again leaves the same row.

use crate::{facts::Facts, total::Total};
use sqlx::{PgPool, types::Json};

/// Made by whoever comes first, like the tables of a service.
const TABLES: &str = "
    create schema if not exists indexer;
    create table if not exists indexer.runs (
        id         bigint generated always as identity primary key,
        directory  text not null,
        started_at timestamptz not null default clock_timestamp()
    );
    create table if not exists indexer.files (
        run    bigint  not null,
        item   integer not null,
        path   text    not null,
        lines  bigint  not null,
        words  bigint  not null,
        bytes  bigint  not null,
        sha256 text    not null,
        primary key (run, item)
    );
    create table if not exists indexer.totals (run bigint primary key, total jsonb not null);
    create table if not exists indexer.announcements (run bigint not null, job_id bigint not null);";

/// Access to the application's tables.
pub(crate) struct Store {
    pool: PgPool,
}

/// A row of the index as it is read: item, path, lines, words, bytes, hash.
type Row = (i32, String, i64, i64, i64, String);

impl Store {
    pub(crate) fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// Makes the tables and a new run.
    pub(crate) async fn begin_run(&self, directory: &str) -> sqlx::Result<i64> {
        sqlx::raw_sql(TABLES).execute(&self.pool).await?;
        sqlx::query_scalar("insert into indexer.runs (directory) values ($1) returning id")
            .bind(directory)
            .fetch_one(&self.pool)
            .await
    }

    /// Writes what a file job found.
    pub(crate) async fn keep_facts(&self, run: i64, item: i32, path: &str, facts: &Facts) -> sqlx::Result<()> {
        sqlx::query(
            "insert into indexer.files (run, item, path, lines, words, bytes, sha256)
             values ($1, $2, $3, $4, $5, $6, $7)
             on conflict (run, item) do update
                set path = excluded.path, lines = excluded.lines, words = excluded.words,
                    bytes = excluded.bytes, sha256 = excluded.sha256",
        )
        .bind(run)
        .bind(item)
        .bind(path)
        .bind(facts.lines)
        .bind(facts.words)
        .bind(facts.bytes)
        .bind(&facts.sha256)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// At most `limit` files from number `item` on, without a gap: what is missing is not there yet.
    pub(crate) async fn facts_from(&self, run: i64, item: i32, limit: i32) -> sqlx::Result<Vec<(String, Facts)>> {
        let rows: Vec<Row> = sqlx::query_as(
            "select item, path, lines, words, bytes, sha256
               from indexer.files
              where run = $1 and item >= $2 and item < $2 + $3
              order by item",
        )
        .bind(run)
        .bind(item)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?;
        let unbroken = rows.into_iter().zip(item..).take_while(|(row, expected)| row.0 == *expected);
        Ok(unbroken.map(|(row, _)| facts(row).1).collect())
    }

    /// The whole index of a run, by number.
    pub(crate) async fn index(&self, run: i64) -> sqlx::Result<Vec<(i32, (String, Facts))>> {
        let rows: Vec<Row> =
            sqlx::query_as("select item, path, lines, words, bytes, sha256 from indexer.files where run = $1")
                .bind(run)
                .fetch_all(&self.pool)
                .await?;
        Ok(rows.into_iter().map(facts).collect())
    }

    /// Writes the result of the merge.
    pub(crate) async fn keep_total(&self, run: i64, total: &Total) -> sqlx::Result<()> {
        sqlx::query(
            "insert into indexer.totals (run, total) values ($1, $2)
             on conflict (run) do update set total = excluded.total",
        )
        .bind(run)
        .bind(Json(total))
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The result of the merge, if there is one yet.
    pub(crate) async fn total(&self, run: i64) -> sqlx::Result<Option<Total>> {
        let total: Option<Json<Total>> = sqlx::query_scalar("select total from indexer.totals where run = $1")
            .bind(run)
            .fetch_optional(&self.pool)
            .await?;
        Ok(total.map(|Json(total)| total))
    }

    /// The path of the largest file.
    pub(crate) async fn largest(&self, run: i64) -> sqlx::Result<Option<String>> {
        sqlx::query_scalar("select path from indexer.files where run = $1 order by bytes desc, item limit 1")
            .bind(run)
            .fetch_optional(&self.pool)
            .await
    }

    /// Notes that the unique job ran.
    pub(crate) async fn announce(&self, run: i64, job_id: i64) -> sqlx::Result<()> {
        sqlx::query("insert into indexer.announcements (run, job_id) values ($1, $2)")
            .bind(run)
            .bind(job_id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// How often the unique job ran.
    pub(crate) async fn announcements(&self, run: i64) -> sqlx::Result<i64> {
        sqlx::query_scalar("select count(*) from indexer.announcements where run = $1")
            .bind(run)
            .fetch_one(&self.pool)
            .await
    }
}

fn facts((item, path, lines, words, bytes, sha256): Row) -> (i32, (String, Facts)) {
    (item, (path, Facts { lines, words, bytes, sha256 }))
}
