//! Signs of life: of the process, and of each attempt that has run for a while.
//!
//! They come from the side thread ([`side`](crate::side)), so that blocking handlers are not taken for dead, and go on until
//! the last attempt of a drain has ended. An attempt shorter than one interval needs no beat: its claim was one.
//!
//! Progress travels along (ADR-014): attempts with something to report go in one statement, the rest in another. An
//! attempt is told that its lease is lost only on storage's word, which is a second look over all segments.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_storage::workers::{self, WorkerInfo};
use awa_storage::{Error, Held, attempt};
use sqlx::PgPool;

use crate::attempts::Attempt;
use crate::bounded::{STATEMENT_MAX, within};
use crate::engine::Engine;
use crate::progress_buffer::{ProgressBuffer, Snapshot};
use crate::taken;

/// The heart looks this many times an interval for attempts that are due: a failed beat is soon tried again.
const LOOKS_PER_INTERVAL: u32 = 4;

/// A statement gets at least this long: more than it may wait for somebody's lock.
pub(crate) const STATEMENT_MIN: Duration = Duration::from_millis(1500);

/// Beats for one worker.
pub(crate) struct Heart {
    engine: Arc<Engine>,
    pool: PgPool,
    registration: WorkerInfo,
    /// When the database last had a sign of life of this process.
    beaten: Instant,
}

impl Heart {
    pub(crate) fn new(engine: Arc<Engine>, pool: PgPool, registration: WorkerInfo) -> Self {
        Self { engine, pool, registration, beaten: Instant::now() }
    }

    /// Beats until it is dropped.
    pub(crate) async fn beat(&mut self) {
        let mut ticks = tokio::time::interval(self.engine.config.heartbeat_interval / LOOKS_PER_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if let Err(error) = self.pass().await {
                tracing::warn!(%error, "heartbeat failed: trying again soon");
            }
        }
    }

    /// Beats for whatever is due.
    async fn pass(&mut self) -> Result<(), Error> {
        let interval = self.engine.config.heartbeat_interval;
        let due = self.engine.attempts.due(interval);
        let attempts = if due.is_empty() { Ok(()) } else { self.beat_attempts(due).await };
        // Trouble with attempts must not silence the process: then all of them would be taken for orphans.
        let started = Instant::now();
        if started.duration_since(self.beaten) >= interval {
            self.beat_process().await?;
            self.beaten = started;
        }
        attempts
    }

    /// How long one statement may take. On a connection that died without a word it must not silence the heart.
    fn limit(&self) -> Duration {
        self.engine.config.heartbeat_interval.clamp(STATEMENT_MIN, STATEMENT_MAX)
    }

    /// Two statements while none fails: one for those that have progress to report, one for the rest. An attempt whose row its
    /// own handler may have locked goes last and alone: it must not fail the others.
    async fn beat_attempts(&self, due: Vec<Arc<Attempt>>) -> Result<(), Error> {
        let at = Instant::now();
        let mut silent = Vec::new();
        let mut reporting = Vec::new();
        let mut apart = Vec::new();
        for attempt in due {
            let snapshot = attempt.reported().and_then(ProgressBuffer::snapshot);
            let sort = match &snapshot {
                _ if attempt.may_be_complete() => &mut apart,
                Some(_) => &mut reporting,
                None => &mut silent,
            };
            sort.push(Beat { attempt, snapshot });
        }
        self.write(silent, at).await?;
        self.write(reporting, at).await?;
        for beat in apart {
            self.write(vec![beat], at).await?;
        }
        Ok(())
    }

    /// Writes beats of one sort, in halves where the database refuses them: one row that is locked, or whose progress
    /// cannot be stored, must not silence the others.
    async fn write(&self, whole: Vec<Beat>, at: Instant) -> Result<(), Error> {
        let mut pieces = vec![whole];
        while let Some(mut piece) = pieces.pop() {
            if piece.is_empty() {
                continue;
            }
            match within(self.limit(), send(&self.pool, &piece)).await {
                Ok(lost) => self.note(piece, &lost, at).await,
                Err(error) if error.is_transient() && !error.is_contention() => return Err(error),
                Err(_) if piece.len() > 1 => {
                    pieces.push(piece.split_off(piece.len() / 2));
                    pieces.push(piece);
                }
                Err(error) => {
                    let Some(one) = piece.pop() else { continue };
                    if one.attempt.may_be_complete() && error.is_contention() {
                        tracing::debug!(
                            job.id = one.attempt.job_id().get(),
                            "a handler has its own job locked: no beat"
                        );
                        continue;
                    }
                    tracing::warn!(%error, job.id = one.attempt.job_id().get(), "the heartbeat of an attempt was refused");
                    if one.snapshot.is_some() && !error.is_contention() {
                        pieces.push(vec![Beat { snapshot: None, ..one }]);
                    }
                }
            }
        }
        Ok(())
    }

    /// Notes who lives, and tells the handlers of those that do not.
    async fn note(&self, written: Vec<Beat>, lost: &[Held], at: Instant) {
        let mut beaten = Vec::with_capacity(written.len());
        for Beat { attempt, snapshot } in written {
            if let Some(snapshot) = snapshot
                && !lost.contains(&attempt.held)
            {
                snapshot.stored();
            }
            beaten.push(attempt);
        }
        if !lost.is_empty() {
            let mut by_name: HashMap<_, _> = beaten.drain(..).map(|attempt| (attempt.held, attempt)).collect();
            let gone = lost.iter().filter_map(|name| by_name.remove(name)).collect();
            beaten = by_name.into_values().collect();
            taken::lost(&self.engine, &self.pool, self.limit(), gone).await;
        }
        self.engine.attempts.beaten(&beaten, at);
    }

    /// The process's own sign of life. A process that was taken for dead and forgotten registers again.
    async fn beat_process(&self) -> Result<(), Error> {
        if !within(self.limit(), workers::beat(&self.pool, self.engine.worker)).await?.is_applied() {
            tracing::warn!(worker.id = %self.engine.worker, "this process had been forgotten: registering again");
            within(self.limit(), workers::register(&self.pool, &self.registration)).await?;
        }
        Ok(())
    }
}

/// A sign of life of one attempt, with its progress if it has some to report.
struct Beat {
    attempt: Arc<Attempt>,
    snapshot: Option<Snapshot>,
}

/// Sends beats in one statement: all with progress, or all without. Returns those whose lease is lost.
async fn send(pool: &PgPool, beats: &[Beat]) -> Result<Vec<Held>, Error> {
    let json = |beat: &Beat| Some((beat.attempt.held, beat.snapshot.as_ref()?.json().to_owned()));
    let reports: Vec<_> = beats.iter().filter_map(json).collect();
    if reports.is_empty() {
        let named: Vec<_> = beats.iter().map(|beat| beat.attempt.held).collect();
        return attempt::heartbeat(pool, &named).await;
    }
    attempt::heartbeat_with_progress(pool, &reports).await
}

/// How long a lost lease may go unnoticed, at most: an interval, and the wait for the next look.
pub(crate) fn notice_max(interval: Duration) -> Duration {
    interval + interval / LOOKS_PER_INTERVAL
}
