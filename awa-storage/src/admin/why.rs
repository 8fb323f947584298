//! Why a job is not running, for people and for programs.

use std::time::Duration;

use awa_model::{JobId, JobState, WorkerId};
use chrono::{DateTime, Utc};
use serde::{Deserialize, de::DeserializeOwned};
use sqlx::PgExecutor;

use crate::Error;

/// Why a job is not running: what holds, the most decisive first. Never without a reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The job.
    pub job: JobId,
    /// The reasons.
    pub reasons: Vec<Because>,
}

/// One of the reasons, with words for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Because {
    /// The reason, for programs.
    pub reason: Reason,
    /// The reason as a sentence.
    pub explanation: String,
    /// What can be done.
    pub advice: String,
}

/// A reason why a job is not running. Times are the database's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// It has ended.
    Finished(Finished),
    /// It runs, and its worker gives signs of life.
    Running(Run),
    /// It runs as far as is known, and its worker seems dead; or its deadline is over.
    Stale(Run),
    /// It waits for the answer to a callback.
    Waiting(Waiting),
    /// That should have timed out, and the leader has not come yet.
    CallbackOverdue(Waiting),
    /// It is due later.
    Scheduled(Deferred),
    /// An attempt has failed, and the next one is due later.
    Retrying(Deferred),
    /// It is due and has not been made available yet.
    NotPromoted(Overdue),
    /// Nobody leads, so that nothing is promoted, rescued or timed out; since when, if ever somebody has.
    NoLeader {
        /// When the last term ended.
        since: Option<DateTime<Utc>>,
    },
    /// Its queue is paused.
    Paused,
    /// No worker is alive.
    NoWorker(Fleet),
    /// Workers are, and none serves its queue.
    NoWorkerForQueue(Fleet),
    /// Some serve its queue, and none of them has a handler for its kind.
    NoWorkerForKind(Fleet),
    /// An open transaction has it locked: workers pass it by until that ends.
    Locked(Holder),
    /// Other jobs go first.
    Behind(Line),
    /// Nothing is known to be in the way: it should start any moment, or all slots are taken.
    Next(Line),
    /// A reason of a newer schema.
    Other {
        /// The word for it.
        reason: String,
    },
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Finished {
    /// Completed, failed or cancelled.
    pub state: JobState,
    /// When.
    pub at: Option<DateTime<Utc>>,
    /// The newest of its errors.
    pub error: Option<String>,
}

/// An attempt that runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Run {
    /// Its worker.
    pub worker: Option<WorkerId>,
    /// The name of that worker; it and the next two are `None` where it has left the list.
    pub name: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<i32>,
    /// When the attempt began.
    pub since: Option<DateTime<Utc>>,
    /// When it last gave a sign of life.
    pub last_sign: DateTime<Utc>,
    /// When its time is over, if it is limited.
    pub deadline_at: Option<DateTime<Utc>>,
    /// From when on it is rescued, without another sign of life. A leader does so at its next pass.
    pub rescue_at: DateTime<Utc>,
    /// Which attempt it is.
    pub attempt: i16,
}

/// What a job waits for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Waiting {
    /// When the callback was opened.
    pub since: Option<DateTime<Utc>>,
    /// When the job stops waiting for it.
    pub until: Option<DateTime<Utc>>,
}

/// A job that is due later.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Deferred {
    /// When.
    pub due_at: DateTime<Utc>,
    /// Attempts so far.
    pub attempt: i16,
    /// How often it is tried.
    pub max_attempts: i16,
    /// The newest of its errors.
    pub error: Option<String>,
}

/// A job that should have been promoted.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Overdue {
    /// Since when.
    pub due_at: DateTime<Utc>,
    /// Jobs that are due before it, counted up to a limit.
    pub ahead: u64,
    /// Whether that is all of them.
    pub ahead_is_all: bool,
}

/// The workers, as far as they concern a job that none of them would take.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Fleet {
    /// The job's queue.
    pub queue: String,
    /// Its kind.
    pub kind: String,
    /// Live workers.
    pub alive: u64,
    /// Those of them that serve its queue.
    pub serving: u64,
    /// The last sign of life of any worker.
    pub last_seen_at: Option<DateTime<Utc>>,
}

/// An open transaction. What is known of sessions of other roles depends on the rights of the owner of the schema
/// (`pg_read_all_stats`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Holder {
    /// The process of its session; `None` for a prepared transaction, or if it is not known.
    pub pid: Option<i32>,
    /// The role.
    pub user: Option<String>,
    /// What its session says it is.
    pub application: Option<String>,
    /// What its session does: `idle in transaction`, …
    pub state: Option<String>,
    /// When it began.
    pub since: Option<DateTime<Utc>>,
    /// The name of a prepared transaction.
    pub prepared: Option<String>,
}

/// The jobs before one, and what runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Line {
    /// Available jobs that go first, counted up to a limit.
    pub ahead: u64,
    /// Whether that is all of them.
    pub ahead_is_all: bool,
    /// Jobs of the queue that run, counted up to a limit.
    pub running: u64,
    /// Whether that is all of them.
    pub running_is_all: bool,
    /// Live workers that would take the job.
    pub workers: u64,
}

/// Why is this job not running? `None` where there is no such job: it has not been committed, was deleted, or is past its
/// retention. Reads a bounded number of rows, whatever waits.
///
/// `stale_after` is the silence after which a worker or an attempt is taken for dead: give what the workers have.
///
/// # Errors
/// If the database does not answer.
pub async fn why(db: impl PgExecutor<'_>, job: JobId, stale_after: Duration) -> Result<Option<Why>, Error> {
    let silence = stale_after.min(super::SILENCE_MAX).as_secs_f64();
    let rows = sqlx::query_file_as!(Row, "queries/admin/why.sql", job.get(), silence)
        .fetch_all(db)
        .await
        .map_err(Error::of_enqueue)?;
    if rows.first().is_none_or(|row| row.reason == "not_found") {
        return Ok(None);
    }
    let read = |row: Row| {
        let reason = Reason::read(row.reason, &row.detail)?;
        Ok(Because { reason, explanation: row.explanation, advice: row.advice })
    };
    let reasons = rows.into_iter().map(read).collect::<Result<_, Error>>()?;
    Ok(Some(Why { job, reasons }))
}

/// A row as `awa.why` answers it.
struct Row {
    reason: String,
    explanation: String,
    advice: String,
    detail: String,
}

impl Reason {
    fn read(reason: String, detail: &str) -> Result<Self, Error> {
        Ok(match reason.as_str() {
            "finished" => Self::Finished(parse(detail)?),
            "runs" => Self::Running(parse(detail)?),
            "stale" => Self::Stale(parse(detail)?),
            "waiting" => Self::Waiting(parse(detail)?),
            "callback_overdue" => Self::CallbackOverdue(parse(detail)?),
            "due_later" => Self::Scheduled(parse(detail)?),
            "retrying" => Self::Retrying(parse(detail)?),
            "not_promoted" => Self::NotPromoted(parse(detail)?),
            "no_leader" => Self::NoLeader { since: parse::<Since>(detail)?.since },
            "paused" => Self::Paused,
            "no_worker" => Self::NoWorker(parse(detail)?),
            "no_worker_for_queue" => Self::NoWorkerForQueue(parse(detail)?),
            "no_worker_for_kind" => Self::NoWorkerForKind(parse(detail)?),
            "locked" => Self::Locked(parse(detail)?),
            "behind" => Self::Behind(parse(detail)?),
            "next" => Self::Next(parse(detail)?),
            _ => Self::Other { reason },
        })
    }
}

#[derive(Deserialize)]
struct Since {
    since: Option<DateTime<Utc>>,
}

fn parse<T: DeserializeOwned>(detail: &str) -> Result<T, Error> {
    serde_json::from_str(detail).map_err(|_| Error::Unreadable {
        relation: "awa.why",
        column: "detail",
        value: detail.to_owned(),
    })
}
