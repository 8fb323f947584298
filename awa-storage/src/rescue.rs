//! Rescue: attempts whose worker does not end them are handed back.
//!
//! `awa.active_claims` names every running attempt, so the dead are found without an index on state: a claimed batch is
//! looked at when its worker has no row or was not seen for long, when it is older than an attempt may be silent, or when a
//! deadline in it has passed. The rows themselves decide, as locked. An attempt that was handed back costs an attempt, keeps
//! its progress, and waits the ordinary backoff; without attempts left it ends `failed` (I6, STUCK cases).
//!
//! Nothing is remembered between passes: what one leaves undone, an error included, the next one finds again.

use std::{str::FromStr as _, time::Duration};

use awa_model::{JobId, JobState, RunLease};
use sqlx::PgExecutor;

use crate::Error;

/// When an attempt counts as abandoned, and how much one pass does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RescueLimits {
    /// A worker process not seen for this long is dead. One without a row is dead at once: it has signed off.
    pub worker_silence: Duration,
    /// An attempt that gave no sign of life for this long is abandoned, whoever runs it.
    pub attempt_silence: Duration,
    /// How long after its deadline a worker has to end an attempt itself.
    pub deadline_grace: Duration,
    /// Stop after the batch in which this many attempts were rescued. What is only looked at does not count.
    pub jobs_max: u32,
    /// Stop after this long, too.
    pub budget: Duration,
}

/// Why an attempt was rescued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RescueReason {
    /// Its worker process is gone.
    Worker,
    /// It gave no sign of life.
    Heartbeat,
    /// It overran its deadline.
    Deadline,
}

/// One attempt that was handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RescuedJob {
    /// The job.
    pub job_id: JobId,
    /// The lease that is lost by this.
    pub run_lease: RunLease,
    /// Why.
    pub reason: RescueReason,
    /// `retryable`; `failed` without attempts left or where the row cannot be stored otherwise; `cancelled` where another
    /// job holds its unique key.
    pub state: JobState,
}

/// What one pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rescued {
    /// Attempts handed back.
    pub jobs: Vec<RescuedJob>,
    /// Jobs that could not be handed back and stay running: what they need is locked, or they cannot be changed at all.
    pub stuck: Vec<JobId>,
    /// Where to go on; `None` when every claimed batch was looked at.
    pub next: Option<RescueCursor>,
}

/// How far a pass got that stopped early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RescueCursor {
    batch: i64,
}

/// Rescues what is overdue by the database's clock in the claimed batches behind `from`; the default starts with the first.
///
/// One statement and one transaction. Two passes at once do no harm: each row is handed back by the one that locked it
/// overdue, and a heartbeat or completion that comes first wins (I13).
///
/// # Errors
///
/// If the database does not answer; then the pass took effect or not. Start over with the default cursor.
pub async fn rescue(db: impl PgExecutor<'_>, limits: &RescueLimits, from: RescueCursor) -> Result<Rescued, Error> {
    let row = sqlx::query_file!(
        "queries/rescue/rescue.sql",
        from.batch,
        i32::try_from(limits.jobs_max).unwrap_or(i32::MAX),
        limits.worker_silence.as_secs_f64(),
        limits.attempt_silence.as_secs_f64(),
        limits.deadline_grace.as_secs_f64(),
        limits.budget.as_secs_f64(),
    )
    .fetch_one(db)
    .await?;
    let mut rescued = Rescued { next: row.next_after.map(|batch| RescueCursor { batch }), ..Rescued::default() };
    let attempts = row.ids.into_iter().zip(row.leases).zip(row.reasons.iter().zip(row.states));
    for ((id, lease), (reason, state)) in attempts {
        let job_id = JobId::new(id);
        let Some(state) = state else {
            rescued.stuck.push(job_id);
            continue;
        };
        rescued.jobs.push(RescuedJob {
            job_id,
            run_lease: RunLease::new(lease),
            reason: reason_of(reason)?,
            state: JobState::from_str(&state).map_err(|_| unreadable("state", &state))?,
        });
    }
    Ok(rescued)
}

fn reason_of(text: &str) -> Result<RescueReason, Error> {
    match text {
        "worker" => Ok(RescueReason::Worker),
        "heartbeat" => Ok(RescueReason::Heartbeat),
        "deadline" => Ok(RescueReason::Deadline),
        other => Err(unreadable("reason", other)),
    }
}

fn unreadable(column: &'static str, value: &str) -> Error {
    Error::Unreadable { relation: "awa.rescue", column, value: value.to_owned() }
}
