//! Writes down how attempts ended, in batches.
//!
//! A slot is freed only when the database has the outcome (I3), so settling must neither fail silently nor be held up by
//! one bad row. Outcomes are collected until there are enough of them or the first has waited long enough. Completions go
//! in one statement, everything else in another. When the database cannot be reached a batch is sent again until it can,
//! and its attempts are kept alive meanwhile. When it answers with an error the batch is split until the row that it
//! refuses is alone; that one is tried for a while longer, then given up: its heartbeats cease, the log says so, and
//! rescue takes it like the attempt of a dead worker.
//!
//! A settlement may be sent twice, since an answer can get lost: a lease that is settled already says `Applied`.

#[cfg(feature = "testing")]
mod inline;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_model::{JobId, JobState};
use awa_storage::settle::{Completion, Settlement, Verdict, complete_alone, complete_many, settle_alone, settle_batch};
use awa_storage::{Error, Guarded, Lease};
use sqlx::PgPool;
use tokio::select;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::attempts::Attempt;
use crate::engine::Engine;
use crate::leftovers::UnfinishedEnd;
use crate::slots::Slot;
use crate::verdict::Ending;
use crate::{jitter, taken, telemetry};

#[cfg(feature = "testing")]
pub(crate) use self::inline::Unwritten;

/// Batches that are being written at once: one more than one, so that collecting never waits for the network.
const WRITES_MAX: usize = 2;

/// How long the first outcome of a batch waits for company, while handlers are running.
const LINGER: Duration = Duration::from_millis(2);

/// Pauses between tries of a batch, when the database cannot be reached: from, to.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// An attempt that has ended and is not settled yet.
pub(crate) struct Finished {
    outcome: Outcome,
    owed: Owed,
}

enum Outcome {
    Completed(Completion),
    Settled(Settlement),
}

/// What is let go of when the outcome is durable.
///
/// Dropped unsettled, the attempt is given up: it gets no more heartbeats, and rescue will find it.
struct Owed {
    attempt: Arc<Attempt>,
    engine: Arc<Engine>,
    /// Whether the job goes back to its queue as it was.
    returns: bool,
    /// Freed with this value, that is after the answer of the database.
    _slot: Option<Arc<Slot>>,
    settled: bool,
}

impl Finished {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        attempt: Arc<Attempt>,
        lease: Lease,
        ending: Ending,
        slot: Option<Arc<Slot>>,
    ) -> Self {
        let returns = matches!(ending, Ending::Settled(Verdict::Release));
        let outcome = match ending {
            Ending::Completed(result) => Outcome::Completed(Completion { lease, result }),
            Ending::Settled(verdict) => {
                let progress = attempt.reported().and_then(|buffer| buffer.unconfirmed());
                Outcome::Settled(Settlement { lease, verdict, progress })
            }
        };
        let owed = Owed { attempt, engine: Arc::clone(engine), returns, _slot: slot, settled: false };
        Self { outcome, owed }
    }

    pub(crate) fn job_id(&self) -> JobId {
        self.owed.attempt.job_id()
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.settled {
            if self.engine.draining.is_cancelled() {
                self.engine.leftovers.note(&self.attempt, UnfinishedEnd::LeftToRescue);
            }
            self.engine.attempts.release([&self.attempt]);
            tracing::error!(
                job.id = self.attempt.job_id().get(),
                job.kind = %self.attempt.facts.kind,
                "the outcome of an attempt could not be written and is given up: rescue will take the job"
            );
        }
    }
}

/// Collects and writes outcomes until `stop`, then writes what is left.
pub(crate) async fn run(engine: Arc<Engine>, mut inbox: UnboundedReceiver<Finished>, stop: CancellationToken) {
    let mut writes = JoinSet::new();
    let batch_max = engine.config.settle_batch_max;
    loop {
        let mut batch = Vec::with_capacity(batch_max);
        select! {
            biased;
            _ = writes.join_next(), if writes.len() >= WRITES_MAX => continue,
            count = inbox.recv_many(&mut batch, batch_max), if writes.len() < WRITES_MAX => {
                if count == 0 {
                    break;
                }
            }
            () = stop.cancelled() => break,
        }
        fill(&engine, &mut inbox, &mut batch).await;
        while writes.try_join_next().is_some() {}
        let span = telemetry::finalize_span(batch.len());
        writes.spawn(write_all(Arc::clone(&engine), batch).instrument(span));
    }
    inbox.close();
    let mut rest = Vec::new();
    while inbox.recv_many(&mut rest, batch_max).await > 0 {}
    write_all(Arc::clone(&engine), rest).await;
    while writes.join_next().await.is_some() {}
}

/// Waits for more outcomes while the batch has room and some handler may still answer.
async fn fill(engine: &Engine, inbox: &mut UnboundedReceiver<Finished>, batch: &mut Vec<Finished>) {
    let full = engine.config.settle_batch_max;
    let linger = tokio::time::sleep(LINGER);
    tokio::pin!(linger);
    while batch.len() < full && engine.attempts.len() > batch.len() {
        let room = full - batch.len();
        select! {
            biased;
            count = inbox.recv_many(batch, room) => if count == 0 { return },
            () = &mut linger => return,
        }
    }
}

/// Writes completions and the other outcomes, side by side.
async fn write_all(engine: Arc<Engine>, batch: Vec<Finished>) {
    let mut completed = Piece::default();
    let mut settled = Piece::default();
    for one in batch {
        match one.outcome {
            Outcome::Completed(row) => completed.push(row, one.owed),
            Outcome::Settled(row) => settled.push(row, one.owed),
        }
    }
    tokio::join!(write(&engine, completed), write(&engine, settled));
}

/// Outcomes that are written by one statement.
struct Piece<Row> {
    rows: Vec<Row>,
    /// One for each row, in the same order.
    owed: Vec<Owed>,
}

impl<Row> Default for Piece<Row> {
    fn default() -> Self {
        Self { rows: Vec::new(), owed: Vec::new() }
    }
}

impl<Row> Piece<Row> {
    fn push(&mut self, row: Row, owed: Owed) {
        self.rows.push(row);
        self.owed.push(owed);
    }

    /// Keeps the first half and returns the second.
    fn split(&mut self) -> Self {
        let half = self.rows.len() / 2;
        Self { rows: self.rows.split_off(half), owed: self.owed.split_off(half) }
    }
}

/// What the database said about one outcome: the state that the job is in now, or that the lease is lost.
type Applied = Guarded<JobState>;

/// A sort of outcome, and the statements that write it.
trait Row: Sized + Send + Sync + 'static {
    /// Writes many. `None` for one that must take a unique key, and was left to [`send_alone`](Row::send_alone).
    fn send(pool: &PgPool, rows: &[Self]) -> impl Future<Output = Result<Vec<Option<Applied>>, Error>> + Send;

    /// Writes one, whoever holds its unique key.
    fn send_alone(&self, pool: &PgPool) -> impl Future<Output = Result<Applied, Error>> + Send;

    /// What went wrong in the attempt.
    fn error(&self) -> Option<&str> {
        None
    }
}

impl Row for Completion {
    async fn send(pool: &PgPool, rows: &[Self]) -> Result<Vec<Option<Applied>>, Error> {
        Ok(complete_many(pool, rows).await?.into_iter().map(|answer| Some(completed(answer))).collect())
    }

    async fn send_alone(&self, pool: &PgPool) -> Result<Applied, Error> {
        Ok(completed(complete_alone(pool, self).await?))
    }
}

const fn completed(answer: Guarded<()>) -> Applied {
    match answer {
        Guarded::Applied(()) => Guarded::Applied(JobState::Completed),
        Guarded::Lost => Guarded::Lost,
    }
}

impl Row for Settlement {
    async fn send(pool: &PgPool, rows: &[Self]) -> Result<Vec<Option<Applied>>, Error> {
        let answers = settle_batch(pool, rows).await?;
        for (row, answer) in rows.iter().zip(&answers) {
            warn_if_uncommitted(row, *answer);
        }
        Ok(answers)
    }

    async fn send_alone(&self, pool: &PgPool) -> Result<Applied, Error> {
        let answer = settle_alone(pool, self).await?;
        warn_if_uncommitted(self, Some(answer));
        if matches!(answer, Guarded::Applied(JobState::Cancelled)) && !matches!(self.verdict, Verdict::Cancel { .. }) {
            tracing::warn!(
                job.id = self.lease.job_id().get(),
                "a job ends cancelled: another one took its unique key while it ran"
            );
        }
        Ok(answer)
    }

    fn error(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Retry { error, .. } | Verdict::Fail { error } | Verdict::Committed { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A handler that says it completed the job by itself has to be right about it.
fn warn_if_uncommitted(row: &Settlement, answer: Option<Applied>) {
    if let (Verdict::Committed { error, .. }, Some(Guarded::Applied(state))) = (&row.verdict, answer)
        && state != JobState::Completed
    {
        tracing::warn!(error, job.id = row.lease.job_id().get(), "an attempt failed");
    }
}

/// The end of a job that somebody has to look at.
fn warn_if_failed<R: Row>(row: &R, attempt: &Attempt, answer: Applied) {
    if answer == Guarded::Applied(JobState::Failed) {
        tracing::warn!(
            job.id = attempt.job_id().get(),
            job.kind = %attempt.facts.kind,
            job.queue = %attempt.facts.queue,
            job.attempt = attempt.facts.attempt,
            error = row.error().unwrap_or_default(),
            "a job has failed for good"
        );
    }
}

/// Writes outcomes of one sort, piece by piece if need be.
async fn write<R: Row>(engine: &Arc<Engine>, whole: Piece<R>) {
    let mut pieces = vec![whole];
    while let Some(mut piece) = pieces.pop() {
        if piece.rows.is_empty() {
            continue;
        }
        match send_until_answered(engine, &piece.rows).await {
            Sent::Answered(answers) => note_or_insist(engine, piece, answers).await,
            Sent::Refused(error) if piece.rows.len() > 1 => {
                let size = piece.rows.len();
                tracing::warn!(%error, batch.size = size, "a batch of outcomes was refused: trying it in halves");
                pieces.push(piece.split());
                pieces.push(piece);
            }
            Sent::Refused(error) => {
                // On a task of its own: one bad row must not hold up the good ones behind it.
                tokio::spawn(insist(Arc::clone(engine), piece, Some(error)));
            }
            Sent::Abandoned => {}
        }
    }
}

/// Notes what is settled, and sees to it that what was left alone is settled one by one.
async fn note_or_insist<R: Row>(engine: &Arc<Engine>, piece: Piece<R>, answers: Vec<Option<Applied>>) {
    let (mut written, mut states) = (Vec::new(), Vec::new());
    for ((row, owed), answer) in piece.rows.into_iter().zip(piece.owed).zip(answers) {
        match answer {
            Some(state) => {
                warn_if_failed(&row, &owed.attempt, state);
                written.push(owed);
                states.push(state);
            }
            None => {
                let (engine, one) = (Arc::clone(engine), Piece { rows: vec![row], owed: vec![owed] });
                tokio::spawn(insist(engine, one, None));
            }
        }
    }
    note(engine, written, states).await;
}

enum Sent {
    Answered(Vec<Option<Applied>>),
    Refused(Error),
    Abandoned,
}

/// Sends one piece again and again while the fault is not in the piece.
async fn send_until_answered<R: Row>(engine: &Engine, rows: &[R]) -> Sent {
    let mut pause = PAUSES.0;
    loop {
        let error = match engine.bounded(R::send(&engine.pool, rows)).await {
            Ok(answers) => return Sent::Answered(answers),
            Err(error) => error,
        };
        // Somebody's lock may be on one row only, and each try waits for it: the others go on in smaller pieces.
        if !error.is_transient() || error.is_contention() {
            return Sent::Refused(error);
        }
        tracing::warn!(%error, batch.size = rows.len(), "outcomes could not be written: trying again");
        select! {
            () = tokio::time::sleep(jitter::lengthened(pause)) => {}
            () = engine.abandoned.cancelled() => return Sent::Abandoned,
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// Settles a single outcome alone, and keeps trying until it is given up. `refused` says why it could not go with others.
///
/// One at a time: each may wait for somebody's open transaction, and those that wait must not use up the connections.
async fn insist<R: Row>(engine: Arc<Engine>, one: Piece<R>, mut refused: Option<Error>) {
    let started = Instant::now();
    let mut pause = PAUSES.0;
    let Some(row) = one.rows.first() else { return };
    while started.elapsed() < engine.config.settle_give_up_after {
        if refused.is_some() {
            select! {
                () = tokio::time::sleep(jitter::lengthened(pause)) => {}
                () = engine.abandoned.cancelled() => break,
            }
            pause = (pause * 2).min(PAUSES.1);
        }
        let answer = {
            let _turn = engine.alone.lock().await;
            engine.bounded(row.send_alone(&engine.pool)).await
        };
        match answer {
            Ok(answer) => {
                one.owed.iter().for_each(|owed| warn_if_failed(row, &owed.attempt, answer));
                return note(&engine, one.owed, vec![answer]).await;
            }
            Err(latest) => refused = Some(latest),
        }
    }
    for owed in &one.owed {
        let job = owed.attempt.job_id().get();
        let error = refused.as_ref().map(ToString::to_string).unwrap_or_default();
        tracing::error!(error, job.id = job, "the database refuses the outcome of an attempt");
    }
}

/// The outcomes are durable, or their leases are lost: let go of the attempts, then of their slots.
async fn note(engine: &Engine, mut written: Vec<Owed>, answers: Vec<Applied>) {
    let mut lost = Vec::new();
    for (owed, answer) in written.iter().zip(&answers) {
        let attempt = &owed.attempt;
        match answer {
            Guarded::Applied(_) if owed.returns && engine.draining.is_cancelled() => {
                engine.leftovers.note(attempt, UnfinishedEnd::Returned);
            }
            Guarded::Applied(_) => {}
            Guarded::Lost => lost.push(Arc::clone(attempt)),
        }
    }
    // Before anything is let go of: a drain that has nothing left to wait for would cut the question off.
    taken::unheard(engine, &lost).await;
    engine.attempts.release(written.iter().map(|owed| &owed.attempt));
    engine.watched.settled(written.iter().map(|owed| owed.attempt.job_id()));
    written.iter_mut().for_each(|owed| owed.settled = true);
    drop(written);
}
