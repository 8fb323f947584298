//! Many jobs by binary COPY: the rows go to their tables as they are, without passing through a function.
//!
//! A COPY fills one table, and jobs have two: there is one for those that are due and one for those that wait, in one
//! transaction (the caller's, under a savepoint, or one of its own), so that all of them are added or none. Ids are drawn
//! beforehand. Jobs with a unique key go through [`enqueue_many`] in the same transaction: only the functions take keys.
//! So does everything where the role may not write the tables itself.
//!
//! # A future that is dropped
//! It borrows the connection, so nothing can finish its work once it is dropped: in the middle of a COPY the server waits for
//! rows, and the answers that follow would be taken for those of the next statement. So it takes the session along: the
//! server is told to end it, which rolls back what is open, the caller's transaction included. Whatever uses the connection
//! next gets an error, and a pool replaces it.

mod rows;

use std::{collections::BTreeSet, mem::ManuallyDrop, pin::pin, task};

use awa_model::{Due, Inserted, JobId, PreparedJob};
use chrono::{DateTime, Utc};
use sqlx::{Connection as _, PgConnection, Row as _};

use self::rows::Rows;
use super::enqueue_many;
use crate::Error;

/// Bytes of rows that are put together before they are sent.
const CHUNK_BYTES: usize = 256 * 1024;

/// Ends the session, whatever it is in the middle of. In a COPY it is not even read: any message but rows ends it there.
const END_SESSION: &str = "rollback; select pg_catalog.pg_terminate_backend(pg_catalog.pg_backend_pid())";

/// Enqueues many jobs by COPY. Answers one [`Inserted`] a job, in the order given.
///
/// All or none, as [`enqueue_many`], with the same checks, defaults and wake-ups. Dropping the future ends the session of the
/// connection, and with it an open transaction: in the middle of a COPY there is no other way back.
///
/// # Errors
/// As [`enqueue_many`]. A transaction of the caller goes on as if nothing had been tried.
pub async fn enqueue_copy(connection: &mut PgConnection, jobs: &[PreparedJob]) -> Result<Vec<Inserted>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let allowed = sqlx::query_file_scalar!("queries/enqueue/copy_allowed.sql").fetch_one(&mut *connection).await;
    let copies = allowed.map_err(Error::of_enqueue)? && jobs.iter().any(|job| job.unique.is_none());
    let frame = if in_transaction(connection).await? { Frame::SAVEPOINT } else { Frame::TRANSACTION };
    let mut unfinished = Unfinished { connection, finished: false };
    control(unfinished.connection, frame.begin).await?;
    let copied = if copies {
        copy(unfinished.connection, jobs).await
    } else {
        enqueue_many(&mut *unfinished.connection, jobs).await
    };
    let ended = control(unfinished.connection, if copied.is_ok() { frame.keep } else { frame.undo }).await;
    unfinished.finished = ended.is_ok();
    // What went wrong first says more.
    copied.and_then(|answers| ended.map(|()| answers))
}

/// What surrounds the statements, so that they are one.
struct Frame {
    begin: &'static str,
    keep: &'static str,
    undo: &'static str,
}

impl Frame {
    const TRANSACTION: Self = Self { begin: "begin", keep: "commit", undo: "rollback" };
    const SAVEPOINT: Self = Self {
        begin: "savepoint awa_copy",
        keep: "release savepoint awa_copy",
        undo: "rollback to savepoint awa_copy; release savepoint awa_copy",
    };
}

/// Whether the caller has a transaction open, also one that it began by a statement of its own.
async fn in_transaction(connection: &mut PgConnection) -> Result<bool, Error> {
    if connection.is_in_transaction() {
        return Ok(true);
    }
    // A transaction of a single statement begins with it, to the microsecond.
    let row = sqlx::raw_sql("select now() <> statement_timestamp()").fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

async fn control(connection: &mut PgConnection, statement: &'static str) -> Result<(), Error> {
    sqlx::raw_sql(statement).execute(connection).await?;
    Ok(())
}

/// The statements themselves.
async fn copy(connection: &mut PgConnection, jobs: &[PreparedJob]) -> Result<Vec<Inserted>, Error> {
    let (keyed, plain): (Vec<_>, Vec<_>) = (0..jobs.len()).partition(|place| jobs[*place].unique.is_some());
    let mut answers = vec![None; jobs.len()];
    if !keyed.is_empty() {
        let batch: Vec<_> = keyed.iter().map(|place| jobs[*place].clone()).collect();
        for (place, answer) in keyed.iter().zip(enqueue_many(&mut *connection, &batch).await?) {
            answers[*place] = Some(answer);
        }
    }
    let count = i64::try_from(plain.len()).unwrap_or(i64::MAX);
    let drawn = sqlx::query_file!("queries/enqueue/copy_draw.sql", count).fetch_one(&mut *connection).await?;
    let (mut due, mut deferred) = (Vec::new(), Vec::new());
    for (place, id) in plain.iter().zip(drawn.ids) {
        let run_at = due_time(jobs[*place].due, drawn.now);
        answers[*place] = Some(Inserted::New(JobId::new(id)));
        if run_at <= drawn.now { &mut due } else { &mut deferred }.push((id, run_at, &jobs[*place]));
    }
    fill(connection, &format!("jobs_hot_{}", drawn.segment), &due).await?;
    fill(connection, "scheduled_jobs", &deferred).await?;
    let queues: BTreeSet<&str> = due.iter().map(|(_, _, job)| job.queue.as_str()).collect();
    let queues: Vec<&str> = queues.into_iter().collect();
    sqlx::query_file!("queries/enqueue/copy_wake.sql", &queues as &[&str]).execute(&mut *connection).await?;
    Ok(answers.into_iter().flatten().collect())
}

/// As the functions compute it.
fn due_time(due: Due, now: DateTime<Utc>) -> DateTime<Utc> {
    match due {
        Due::Now => now,
        Due::At(time) => time,
        Due::In(delay) => now + chrono::TimeDelta::microseconds(rows::microseconds(delay)),
    }
}

/// Copies rows into one table.
async fn fill(
    connection: &mut PgConnection,
    table: &str,
    jobs: &[(i64, DateTime<Utc>, &PreparedJob)],
) -> Result<(), Error> {
    if jobs.is_empty() {
        return Ok(());
    }
    let statement = format!("copy awa.{table} ({}) from stdin (format binary)", rows::COLUMNS);
    // When it is dropped it would send what ends the COPY, and its answer would be taken for that of another statement.
    let mut copy = ManuallyDrop::new(connection.copy_in_raw(&statement).await?);
    let mut rows = Rows::new();
    for (id, run_at, job) in jobs {
        rows.add(*id, *run_at, job);
        if rows.len() >= CHUNK_BYTES {
            copy.send(rows.take()).await?;
        }
    }
    copy.send(rows.end()).await?;
    ManuallyDrop::into_inner(copy).finish().await?;
    Ok(())
}

/// The caller's connection while it is in a state that only going on would mend.
struct Unfinished<'c> {
    connection: &'c mut PgConnection,
    finished: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        tracing::warn!("an enqueue by COPY was dropped; its session is ended, and a transaction of the caller with it");
        let mut context = task::Context::from_waker(task::Waker::noop());
        // Polled once, it writes the statement; nobody waits for the answer. Outside of a transaction of sqlx's this one way
        // writes at once, whatever else is still to be sent.
        if self.connection.is_in_transaction() {
            let _ = pin!(sqlx::raw_sql(END_SESSION).execute(&mut *self.connection)).poll(&mut context).is_ready();
        } else {
            let _ = pin!(self.connection.begin_with(END_SESSION)).poll(&mut context).is_ready();
        }
    }
}
