//! What the tests of producers share: jobs to enqueue, and a look at what became of them.

use awa_model::{Due, Inserted, JobId, Kind, PreparedJob, Priority, QueueName, Unique};
use serde_json::Value;
use sqlx::{PgPool, Row as _, postgres::PgConnection};

/// A job of kind `work` in queue `default`, due now, with these args.
pub(crate) fn job(args: &str) -> PreparedJob {
    PreparedJob {
        kind: Kind::new("work").expect("a name"),
        queue: QueueName::default(),
        priority: Priority::default(),
        args: args.to_owned(),
        due: Due::Now,
        max_attempts: 25,
        timeout: None,
        tags: Vec::new(),
        metadata: None,
        unique: None,
        trace_context: None,
    }
}

/// The same, a duplicate of jobs with equal args until it is finished.
pub(crate) fn unique(args: &str) -> PreparedJob {
    PreparedJob { unique: Some(Unique::until_finished()), ..job(args) }
}

pub(crate) fn queue(name: &'static str) -> QueueName {
    QueueName::new(name).expect("a name")
}

/// The id of a job that must have been added.
#[track_caller]
pub(crate) fn new(inserted: Inserted) -> JobId {
    match inserted {
        Inserted::New(id) => id,
        Inserted::Duplicate(id) | Inserted::Replaced(id) => panic!("a duplicate of job {id}"),
    }
}

/// Every job as JSON, by id, with its table.
pub(crate) async fn rows(pool: &PgPool) -> Vec<Value> {
    let statement = "select to_jsonb(job) || jsonb_build_object('table', job.tableoid::regclass::text)
                       from awa.jobs_hot as job
                     union all
                     select to_jsonb(job) || jsonb_build_object('table', job.tableoid::regclass::text)
                       from awa.scheduled_jobs as job
                      order by 1";
    let mut rows: Vec<Value> = sqlx::query_scalar(statement).fetch_all(pool).await.expect("the server answers");
    rows.sort_by_key(|row| row["id"].as_i64());
    rows
}

/// How many rows a relation holds.
pub(crate) async fn count(pool: &PgPool, relation: &str) -> i64 {
    // A name written in a test.
    let statement = sqlx::AssertSqlSafe(format!("select count(*) from {relation}"));
    sqlx::query_scalar(statement).fetch_one(pool).await.expect("the server answers")
}

/// Runs a job to its end in place, as a worker would.
pub(crate) async fn finish(pool: &PgPool, id: JobId) {
    for state in ["running", "completed"] {
        sqlx::query("update awa.jobs_hot set state = $2::awa.job_state, finalized_at = now() where id = $1")
            .bind(id)
            .bind(state)
            .execute(pool)
            .await
            .expect("the edge is allowed");
    }
}

/// The server process behind a connection.
pub(crate) async fn backend(connection: &mut PgConnection) -> i32 {
    sqlx::query("select pg_backend_pid()").fetch_one(connection).await.expect("the server answers").get(0)
}

/// Returns once that server process waits for a lock.
pub(crate) async fn blocked(pool: &PgPool, backend: i32) {
    let waits = "select exists (select from pg_locks where pid = $1 and not granted)";
    while !sqlx::query_scalar::<_, bool>(waits).bind(backend).fetch_one(pool).await.expect("the server answers") {}
}
