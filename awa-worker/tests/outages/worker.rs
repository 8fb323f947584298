//! Workers as these tests like them, and what they wait for.

use std::time::Duration;

use awa_worker::{Client, ClientBuilder, Inserted, JobError, QueueConfig};
use serde_json::{Value, json};
use sqlx::PgPool;

use crate::support::{Probe, probe, until};

/// How a claim begins, of which the server shows no more than the first kilobyte.
pub(crate) const CLAIM: &str = "Claim jobs for one process";

/// A client that beats, polls, rescues and leads at a quick pace.
pub(crate) fn client(pool: &PgPool, slots: usize) -> ClientBuilder {
    Client::builder(pool.clone())
        .heartbeat_interval(Duration::from_millis(100))
        .stale_after(Duration::from_secs(4))
        .queue("default", QueueConfig::new().max_workers(slots))
        .cancel_grace(Duration::from_millis(100))
        .poll_interval(Duration::from_millis(50))
}

/// A handler that answers at once.
pub(crate) async fn answer(job: Probe) -> Result<Value, JobError> {
    Ok(json!(job.name))
}

/// Enqueues so many jobs, and returns their ids.
pub(crate) async fn enqueue(pool: &PgPool, jobs: usize) -> Vec<i64> {
    let jobs: Vec<Probe> = (0..jobs).map(|number| probe(&number.to_string())).collect();
    let inserted = awa_worker::enqueue_many(pool, &jobs).await.expect("enqueued");
    let id = |one: Inserted<Probe>| match one {
        Inserted::New(id) => id.get(),
        other => panic!("{other:?} is a duplicate"),
    };
    inserted.into_iter().map(id).collect()
}

/// What a query counts; nothing while the database does not answer.
pub(crate) async fn count(pool: &PgPool, sql: &'static str) -> Option<i64> {
    sqlx::query_scalar(sql).fetch_one(pool).await.ok()
}

/// Waits until this many jobs are in this state.
pub(crate) async fn in_state(pool: &PgPool, state: &'static str, jobs: usize) {
    let asked = "select count(*) from awa.jobs where state = $1::awa.job_state";
    until(&format!("{jobs} jobs {state}"), async || {
        let counted: Result<i64, _> = sqlx::query_scalar(asked).bind(state).fetch_one(pool).await;
        counted.is_ok_and(|counted| counted == jobs as i64)
    })
    .await;
}

/// How many jobs there are. None is ever lost.
pub(crate) const JOBS: &str = "select count(*) from awa.jobs";

/// The connections of workers.
pub(crate) const CONNECTIONS: &str =
    "select count(*) from pg_stat_activity where application_name like 'awa %' and datname = current_database()";

/// Ends them.
pub(crate) const DISCONNECT: &str = "select count(pg_terminate_backend(pid)) from pg_stat_activity
    where application_name like 'awa %' and datname = current_database()";

/// The gates of sleeping workers: session locks of the connection that listens.
pub(crate) const GATES: &str =
    "select count(*) from pg_locks where locktype = 'advisory' and granted and classid = 1096237385
    and mode = 'ExclusiveLock'
    and database = (select oid from pg_database where datname = current_database())";
