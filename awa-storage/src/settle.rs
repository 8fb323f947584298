//! Settling: how an attempt ends.
//!
//! Completion is an update in place; everything else takes the row out of the ring and puts it where it goes next, in one
//! statement. Both work on batches, lock in id order, and are guarded by the lease. They may be repeated after an error,
//! also when it is unknown whether they committed: a lease that finds itself settled as asked is applied.
//!
//! Of several attempts of one job in a batch only the newest is written about: a later claim means that the others are lost.
//!
//! An attempt whose next state needs a unique key that it does not hold while it runs must take that key, which another job
//! or an open transaction may have. It is settled alone, outside the batch, and reaches a defined end in one step.

use std::{collections::BTreeMap, time::Duration};

use awa_model::{CallbackId, JobId, JobState, RunLease};
use sqlx::{PgExecutor, PgPool};

use crate::{Error, Guarded, Held, Lease, lease::newest};

/// An attempt that has succeeded.
#[derive(Debug)]
pub struct Completion {
    /// Proof of the claim.
    pub lease: Lease,
    /// What the handler returned, as JSON text; `None` for nothing.
    pub result: Option<String>,
}

/// An attempt that ends in any other way.
#[derive(Debug)]
pub struct Settlement {
    /// Proof of the claim.
    pub lease: Lease,
    /// How it ends.
    pub verdict: Verdict,
    /// The last progress, as JSON text; `None` keeps what is stored.
    pub progress: Option<String>,
}

/// How an attempt ends that is not completed. Error texts must fit `awa_model`'s limits: see `awa_model::error_text`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// Try again, after a delay or the ordinary backoff; ends `failed` when no attempt is left.
    Retry {
        /// The delay; `None` for `min(2^attempt s, 24 h)` plus up to 25 % jitter.
        after: Option<Duration>,
        /// What went wrong.
        error: String,
    },
    /// Run again later; the attempt is given back.
    Snooze {
        /// The delay.
        after: Duration,
    },
    /// No use in trying again.
    Fail {
        /// What went wrong.
        error: String,
    },
    /// The handler gave the job up.
    Cancel {
        /// Why.
        reason: String,
    },
    /// The process stops: back to the queue at once, the attempt is given back.
    Release,
    /// The handler says that it has completed the job in a transaction of its own. A job that still runs proves that this
    /// transaction has not committed; then it is a `Retry` with this delay and error.
    Committed {
        /// As for `Retry`.
        after: Option<Duration>,
        /// What went wrong, if it did.
        error: String,
    },
    /// The job waits for the outside, without a worker; if the answer to go on has come already, it is available at once.
    Park {
        /// What it waits for. One that this attempt has not opened nobody could answer: the attempt then counts as failed.
        callback: CallbackId,
    },
}

impl Verdict {
    const fn name(&self) -> &'static str {
        match self {
            Self::Retry { .. } => "retry",
            Self::Snooze { .. } => "snooze",
            Self::Fail { .. } => "fail",
            Self::Cancel { .. } => "cancel",
            Self::Release => "release",
            Self::Committed { .. } => "committed",
            Self::Park { .. } => "park",
        }
    }

    fn delay_seconds(&self) -> Option<f64> {
        match self {
            Self::Retry { after, .. } | Self::Committed { after, .. } => after.map(|after| after.as_secs_f64()),
            Self::Snooze { after } => Some(after.as_secs_f64()),
            Self::Fail { .. } | Self::Cancel { .. } | Self::Release | Self::Park { .. } => None,
        }
    }

    fn error(&self) -> Option<&str> {
        match self {
            Self::Retry { error, .. } | Self::Committed { error, .. } | Self::Fail { error } => Some(error),
            Self::Cancel { reason } => Some(reason),
            Self::Snooze { .. } | Self::Release | Self::Park { .. } => None,
        }
    }

    const fn callback(&self) -> Option<CallbackId> {
        match self {
            Self::Park { callback } => Some(*callback),
            _ => None,
        }
    }
}

/// Completes the attempts. Answers in the order given.
///
/// One statement for each segment that the attempts were claimed in, usually one. Progress is cleared.
///
/// # Errors
///
/// If one statement fails, those before it have taken effect: repeating the whole batch is harmless.
pub async fn complete_many(pool: &PgPool, batch: &[Completion]) -> Result<Vec<Guarded<()>>, Error> {
    let mut by_segment: BTreeMap<i16, Vec<usize>> = BTreeMap::new();
    for place in newest(batch.iter().map(|completion| names(&completion.lease))) {
        by_segment.entry(batch[place].lease.location().segment).or_default().push(place);
    }
    let mut answers = vec![Guarded::Lost; batch.len()];
    for (segment, places) in by_segment {
        let lost = complete_segment(pool, segment, &places, batch).await?;
        for place in places {
            if !lost.contains(&batch[place].lease.job_id().get()) {
                answers[place] = Guarded::Applied(());
            }
        }
    }
    Ok(answers)
}

async fn complete_segment(
    pool: &PgPool,
    segment: i16,
    places: &[usize],
    batch: &[Completion],
) -> Result<Vec<i64>, Error> {
    let chosen = || places.iter().map(|place| &batch[*place]);
    let tuples: Vec<String> = chosen().map(|completion| completion.lease.location().tuple()).collect();
    let ids: Vec<i64> = chosen().map(|completion| completion.lease.job_id().get()).collect();
    let leases: Vec<i64> = chosen().map(|completion| completion.lease.run_lease().get()).collect();
    // Texts all the way: the database keeps numbers that no Rust type could.
    let results = if chosen().any(|completion| completion.result.is_some()) {
        Some(chosen().map(|completion| completion.result.clone()).collect::<Vec<_>>())
    } else {
        None
    };
    let rows = sqlx::query_file!("queries/finalize/complete.sql", segment, &tuples, &ids, &leases, results as _)
        .fetch_all(pool)
        .await?;
    Ok(rows.into_iter().map(|row| row.id).collect())
}

/// Completes one attempt, whoever holds the unique key that a completed job of its rule needs: it then gives the key up.
///
/// # Errors
///
/// If the database does not answer, or an open transaction has the row or the key in hand. Repeating it is harmless.
pub async fn complete_alone(db: impl PgExecutor<'_>, completion: &Completion) -> Result<Guarded<()>, Error> {
    let lease = &completion.lease;
    let row = sqlx::query_file!(
        "queries/finalize/complete_alone.sql",
        lease.location().segment,
        lease.job_id().get(),
        lease.run_lease().get(),
        completion.result as _
    )
    .fetch_one(db)
    .await?;
    Ok(if row.applied { Guarded::Applied(()) } else { Guarded::Lost })
}

/// Completes one attempt on the caller's own connection, inside a transaction of the caller's: the job is completed if and
/// only if that commits. `result` is JSON text. Also gives up a unique key that another job holds.
///
/// The row stays locked until the transaction ends; keep it short. The lease is not consumed, since the transaction may yet
/// be rolled back: settle with [`Verdict::Committed`] afterwards, which finds out.
///
/// # Errors
///
/// If the database does not answer, somebody else has the row or the key in hand for more than five seconds, or a transaction
/// above READ COMMITTED began before the last heartbeat. The transaction is aborted then.
pub async fn complete_in(db: impl PgExecutor<'_>, held: &Held, result: Option<&str>) -> Result<Guarded<()>, Error> {
    let row = sqlx::query_file!(
        "queries/finalize/complete_in.sql",
        held.segment,
        held.job_id.get(),
        held.run_lease.get(),
        result as _
    )
    .fetch_one(db)
    .await?;
    Ok(if row.applied { Guarded::Applied(()) } else { Guarded::Lost })
}

/// Settles the attempts. Answers in the order given, each with the state the job is in now; `None` for an attempt that must
/// take a unique key, which was not touched: call [`settle_alone`] for it, so that nobody else waits for that key.
///
/// One statement. `Retry` without attempts left ends `failed`: decided on the row as locked, whatever the caller knew.
///
/// # Errors
///
/// If the statement fails nothing has been settled, unless it is unknown whether it committed; repeating it is harmless. A
/// row that cannot be settled fails the batch: split it until that row is alone.
pub async fn settle_batch(pool: &PgPool, batch: &[Settlement]) -> Result<Vec<Option<Guarded<JobState>>>, Error> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let places = newest(batch.iter().map(|settlement| names(&settlement.lease)));
    let chosen = || places.iter().map(|place| &batch[*place]);
    let segments: Vec<i16> = chosen().map(|settlement| settlement.lease.location().segment).collect();
    let ids: Vec<i64> = chosen().map(|settlement| settlement.lease.job_id().get()).collect();
    let leases: Vec<i64> = chosen().map(|settlement| settlement.lease.run_lease().get()).collect();
    let outcomes: Vec<String> = chosen().map(|settlement| settlement.verdict.name().to_owned()).collect();
    let delays: Vec<Option<f64>> = chosen().map(|settlement| settlement.verdict.delay_seconds()).collect();
    let errors: Vec<Option<String>> =
        chosen().map(|settlement| settlement.verdict.error().map(str::to_owned)).collect();
    let progress: Vec<Option<String>> = chosen().map(|settlement| settlement.progress.clone()).collect();
    let parks = chosen().any(|settlement| settlement.verdict.callback().is_some());
    let callbacks: Option<Vec<Option<CallbackId>>> =
        parks.then(|| chosen().map(|settlement| settlement.verdict.callback()).collect());
    let rows = sqlx::query_file!(
        "queries/finalize/settle_batch.sql",
        &segments,
        &ids,
        &leases,
        &outcomes,
        delays as _,
        errors as _,
        progress as _,
        callbacks as _
    )
    .fetch_all(pool)
    .await?;
    let states: BTreeMap<i64, Option<Guarded<JobState>>> =
        rows.into_iter().map(|row| (row.id, if row.must_take_key { None } else { Some(applied(row.state)) })).collect();
    let mut answers = vec![Some(Guarded::Lost); batch.len()];
    for place in places {
        let id = batch[place].lease.job_id().get();
        answers[place] = states.get(&id).copied().unwrap_or(Some(Guarded::Lost));
    }
    Ok(answers)
}

/// Settles one attempt, whoever holds the unique key that its next state needs.
///
/// A `Retry`, `Snooze`, `Release` or `Park` that cannot have its key ends `cancelled` in this one step, displaced by the job that
/// holds it; any other end stands, without the key. Its last error names the holder.
///
/// # Errors
///
/// If the database does not answer, or an open transaction has the row or the key in hand. Repeating it is harmless.
pub async fn settle_alone(db: impl PgExecutor<'_>, settlement: &Settlement) -> Result<Guarded<JobState>, Error> {
    let Settlement { lease, verdict, progress } = settlement;
    let row = sqlx::query_file!(
        "queries/finalize/settle_alone.sql",
        lease.location().segment,
        lease.job_id().get(),
        lease.run_lease().get(),
        verdict.name(),
        verdict.delay_seconds(),
        verdict.error(),
        progress as _,
        verdict.callback() as _
    )
    .fetch_one(db)
    .await?;
    Ok(applied(row.state))
}

/// Settles the attempts, each that must take a unique key after the others and alone. Answers in the order given.
///
/// # Errors
///
/// As [`settle_batch`] and [`settle_alone`]; what came before the failure has taken effect.
pub async fn settle_many(pool: &PgPool, batch: &[Settlement]) -> Result<Vec<Guarded<JobState>>, Error> {
    let together = settle_batch(pool, batch).await?;
    let mut answers = Vec::with_capacity(batch.len());
    for (settlement, answer) in batch.iter().zip(together) {
        answers.push(match answer {
            Some(answer) => answer,
            None => settle_alone(pool, settlement).await?,
        });
    }
    Ok(answers)
}

const fn names(lease: &Lease) -> (JobId, RunLease) {
    (lease.job_id(), lease.run_lease())
}

fn applied(state: Option<JobState>) -> Guarded<JobState> {
    state.map_or(Guarded::Lost, Guarded::Applied)
}
