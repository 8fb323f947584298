//! Signs of life: of the process, and of each attempt that has run for a while.
//!
//! They come from a thread of their own, with a runtime and a connection of its own. Handlers that block every thread of
//! the service's runtime delay everything else in this process, but they are not taken for dead. The thread goes on until
//! the last attempt of a drain has ended. An attempt shorter than one interval needs no beat: its claim was one.
//!
//! Progress travels along (ADR-014): attempts with something to report go in one statement, the rest in another. An
//! attempt is told that its lease is lost only on storage's word, which is a second look over all segments.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use awa_storage::workers::{self, WorkerInfo};
use awa_storage::{Error, Held, attempt};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::select;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::attempts::Attempt;
use crate::engine::Engine;
use crate::progress_buffer::{ProgressBuffer, Snapshot};

/// The thread looks this many times an interval for attempts that are due: a failed beat is soon tried again.
const LOOKS_PER_INTERVAL: u32 = 4;

/// The thread that beats. Dropping it asks it to stop.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    stop: CancellationToken,
    stopped: Option<oneshot::Receiver<()>>,
}

impl Heartbeat {
    /// Starts the thread.
    pub(crate) fn start(
        engine: Arc<Engine>,
        registration: WorkerInfo,
        options: PgConnectOptions,
    ) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = CancellationToken::new();
        let (tell, stopped) = oneshot::channel();
        let heard = stop.clone();
        thread::Builder::new().name("awa-heartbeat".to_owned()).spawn(move || {
            runtime.block_on(beat(engine, registration, options, heard));
            drop(runtime);
            // Nobody listens if the worker was dropped; then nobody needs to know.
            let _ = tell.send(());
        })?;
        Ok(Self { stop, stopped: Some(stopped) })
    }

    /// Stops the thread and waits for its connection to be closed.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        if let Some(stopped) = self.stopped.take() {
            let _ = stopped.await;
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Beats until told to stop.
async fn beat(engine: Arc<Engine>, registration: WorkerInfo, options: PgConnectOptions, stop: CancellationToken) {
    // Made here, so that its socket is driven by this thread.
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let interval = engine.config.heartbeat_interval;
    let mut heart = Heart { engine, pool, registration, beaten: Instant::now() };
    let mut ticks = tokio::time::interval(interval / LOOKS_PER_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => break,
        }
        // A statement on a connection that died without a word must not silence the heart.
        match tokio::time::timeout(interval, heart.pass()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "heartbeat failed: trying again soon"),
            Err(_) => tracing::warn!(limit = ?interval, "heartbeat took too long: trying again on a new connection"),
        }
    }
    heart.pool.close().await;
}

struct Heart {
    engine: Arc<Engine>,
    pool: PgPool,
    registration: WorkerInfo,
    /// When the database last had a sign of life of this process.
    beaten: Instant,
}

impl Heart {
    /// Beats for whatever is due.
    async fn pass(&mut self) -> Result<(), Error> {
        let interval = self.engine.config.heartbeat_interval;
        let due = self.engine.attempts.due(interval);
        if !due.is_empty() {
            self.beat_attempts(due).await?;
        }
        let started = Instant::now();
        if started.duration_since(self.beaten) >= interval {
            self.beat_process().await?;
            self.beaten = started;
        }
        Ok(())
    }

    /// Two statements at most: one for those that have progress to report, one for the rest.
    async fn beat_attempts(&self, due: Vec<Arc<Attempt>>) -> Result<(), Error> {
        let at = Instant::now();
        let mut silent = Vec::new();
        let mut reporting = Vec::new();
        let mut snapshots = Vec::new();
        for attempt in due {
            match attempt.reported().and_then(ProgressBuffer::snapshot) {
                Some(snapshot) => {
                    reporting.push(attempt);
                    snapshots.push(snapshot);
                }
                None => silent.push(attempt),
            }
        }
        if !silent.is_empty() {
            let named: Vec<_> = silent.iter().map(|attempt| attempt.held).collect();
            let lost = attempt::heartbeat(&self.pool, &named).await?;
            self.note(silent, &lost, at);
        }
        if !reporting.is_empty() {
            let named: Vec<_> = reporting.iter().map(|attempt| attempt.held).zip(snapshots.iter().map(json)).collect();
            let lost = attempt::heartbeat_with_progress(&self.pool, &named).await?;
            for (attempt, snapshot) in reporting.iter().zip(snapshots) {
                if !lost.contains(&attempt.held) {
                    snapshot.stored();
                }
            }
            self.note(reporting, &lost, at);
        }
        Ok(())
    }

    /// Notes who lives, and tells the handlers of those that do not.
    fn note(&self, mut beaten: Vec<Arc<Attempt>>, lost: &[Held], at: Instant) {
        if !lost.is_empty() {
            let mut by_name: HashMap<_, _> = beaten.drain(..).map(|attempt| (attempt.held, attempt)).collect();
            let mut gone: Vec<_> = lost.iter().filter_map(|name| by_name.remove(name)).collect();
            // One whose outcome is on its way may have been settled since it was picked: the finalizer will hear.
            gone.retain(|attempt| !attempt.is_answered());
            for attempt in &gone {
                tracing::warn!(
                    job.id = attempt.job_id().get(),
                    job.kind = %attempt.facts.kind,
                    "the lease of a running attempt is lost: its handler is asked to stop"
                );
            }
            self.engine.attempts.lose(&gone);
            beaten = by_name.into_values().collect();
        }
        self.engine.attempts.beaten(&beaten, at);
    }

    /// The process's own sign of life. A process that was taken for dead and forgotten registers again.
    async fn beat_process(&self) -> Result<(), Error> {
        if !workers::beat(&self.pool, self.engine.worker).await?.is_applied() {
            tracing::warn!(worker.id = %self.engine.worker, "this process had been forgotten: registering again");
            workers::register(&self.pool, &self.registration).await?;
        }
        Ok(())
    }
}

fn json(snapshot: &Snapshot) -> String {
    snapshot.json().to_owned()
}

/// How long a lost lease may go unnoticed, at most: an interval, and the wait for the next look.
pub(crate) fn notice_max(interval: Duration) -> Duration {
    interval + interval / LOOKS_PER_INTERVAL
}
