//! How the run stands, read from the view that people and dashboards read.

use crate::{check::Seen, kinds};
use serde_json::Value;
use sqlx::{FromRow, PgPool, Row as _, postgres::PgRow};
use std::time::Duration;

/// How far the run is.
#[derive(Clone, Debug, Default, Eq, FromRow, PartialEq)]
pub(crate) struct Standing {
    pub(crate) jobs: i64,
    pub(crate) waiting: i64,
    pub(crate) running: i64,
    pub(crate) retrying: i64,
    pub(crate) completed: i64,
    pub(crate) ended: i64,
    pub(crate) workers: i64,
    pub(crate) merge_state: String,
    pub(crate) merge_percent: i32,
    pub(crate) merge_message: String,
}

/// Counts and the merge's progress, in one statement.
pub(crate) async fn standing(pool: &PgPool, run: i64) -> sqlx::Result<Standing> {
    sqlx::query_as(
        "select count(*) as jobs,
                count(*) filter (where state in ('available', 'scheduled')) as waiting,
                count(*) filter (where state = 'running') as running,
                count(*) filter (where state = 'retryable') as retrying,
                count(*) filter (where state = 'completed') as completed,
                count(*) filter (where state in ('completed', 'failed', 'cancelled')) as ended,
                count(distinct attempted_by) filter (where state = 'running') as workers,
                coalesce(max(state::text) filter (where kind = $2), '') as merge_state,
                coalesce(max((progress ->> 'percent')::integer) filter (where kind = $2), 0) as merge_percent,
                coalesce(max(progress ->> 'message') filter (where kind = $2), '') as merge_message
           from awa.jobs
          where $1 = any(tags)",
    )
    .bind(kinds::tag(run))
    .bind(kinds::MERGE)
    .fetch_one(pool)
    .await
}

/// Every job of the run.
pub(crate) async fn jobs(pool: &PgPool, run: i64) -> sqlx::Result<Vec<Seen>> {
    let rows = sqlx::query(
        "select id, kind, state::text as state, attempt::bigint as attempt, run_lease, snoozes::bigint as snoozes,
                run_at, attempted_at, finalized_at, result, coalesce(errors, '[]') as errors
           from awa.jobs
          where $1 = any(tags)
          order by id",
    )
    .bind(kinds::tag(run))
    .fetch_all(pool)
    .await?;
    rows.iter().map(seen).collect()
}

/// From when the run was begun to when its last job ended, by the database's clock.
pub(crate) async fn wall_time(pool: &PgPool, run: i64) -> sqlx::Result<Duration> {
    let seconds: f64 = sqlx::query_scalar(
        "select coalesce(extract(epoch from max(job.finalized_at) - max(run.started_at)), 0)::float8
           from awa.jobs as job, indexer.runs as run
          where $2 = any(job.tags) and run.id = $1",
    )
    .bind(run)
    .bind(kinds::tag(run))
    .fetch_one(pool)
    .await?;
    Ok(Duration::from_secs_f64(seconds.max(0.0)))
}

fn seen(row: &PgRow) -> sqlx::Result<Seen> {
    let errors: Value = row.try_get("errors")?;
    let errors = errors.as_array().map_or(&[][..], Vec::as_slice);
    let from = |source: &str| {
        let count = errors.iter().filter(|entry| entry.get("source").is_some_and(|given| given == source)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    };
    Ok(Seen {
        id: row.try_get("id")?,
        kind: row.try_get("kind")?,
        state: row.try_get("state")?,
        attempt: row.try_get("attempt")?,
        run_lease: row.try_get("run_lease")?,
        snoozes: row.try_get("snoozes")?,
        rescues: from("rescue"),
        failures: from("handler"),
        run_at: row.try_get("run_at")?,
        attempted_at: row.try_get("attempted_at")?,
        finalized_at: row.try_get("finalized_at")?,
        last_error: errors.last().and_then(|entry| Some(entry.get("error")?.as_str()?.to_owned())),
        result: row.try_get("result")?,
    })
}
