//! Claims jobs as fast as there are slots for them, and sleeps well when there are none.
//!
//! One claim asks for all queues of the process, for no more jobs than have a free slot. A full answer is followed by the
//! next claim at once. A short one means that the queues are nearly empty: short pauses follow, longer each time, and
//! then, if the looker has nothing left either, the dispatcher goes idle (see [`idle`](crate::idle)).
//!
//! A claim is never cut off: it may have committed, and its jobs would have to be rescued.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::select;
use tracing::Instrument as _;

use crate::engine::Engine;
use crate::flow::Pace;
use crate::idle::Sleeper;
use crate::{jitter, telemetry};

/// Pauses after claims that came back empty, in a row.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
    Duration::from_millis(25),
];

/// The pause after a claim that failed.
const ERROR_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Claims until the worker drains.
pub(crate) async fn run(engine: Arc<Engine>, sleeper: Sleeper) {
    let mut dispatcher = Dispatcher { engine: Arc::clone(&engine), sleeper, turn: 0, empty: 0, failed: 0 };
    while !engine.draining.is_cancelled() {
        dispatcher.pass().await;
    }
    // The connection goes on listening for what runs; producers need not wake this worker any more.
    dispatcher.sleeper.rise().await;
}

struct Dispatcher {
    engine: Arc<Engine>,
    sleeper: Sleeper,
    /// Whose turn it is to be the first queue of a claim.
    turn: usize,
    /// Empty answers in a row.
    empty: usize,
    /// Failed claims in a row.
    failed: u32,
}

impl Dispatcher {
    /// One claim, and the pause that its answer calls for.
    async fn pass(&mut self) {
        let wants = self.engine.slots.demand(self.engine.config.claim_batch_max, self.turn);
        self.turn = self.turn.wrapping_add(1);
        if wants.is_empty() {
            self.sleeper.full();
            select! {
                () = self.engine.slots.freed() => {}
                () = self.engine.draining.cancelled() => {}
            }
            return;
        }
        let asked: usize = wants.iter().map(|(_, wanted)| wanted).sum();
        let started = Instant::now();
        let claim = self.engine.bounded(self.engine.cursors.claim(&self.engine.pool, &wants));
        match claim.instrument(telemetry::claim_span(asked)).await {
            Ok(claimed) => {
                self.failed = 0;
                let got = claimed.len();
                if got > 0 {
                    self.engine.flow.look();
                    self.engine.launch(claimed);
                }
                self.sleeper.claimed(got);
                self.rest(got, asked, started.elapsed()).await;
            }
            Err(error) => {
                self.failed += 1;
                tracing::warn!(%error, tries = self.failed, "jobs could not be claimed: trying again");
                let pause = (ERROR_PAUSES.0 * 2_u32.pow(self.failed.min(6))).min(ERROR_PAUSES.1);
                self.pause(jitter::lengthened(pause)).await;
            }
        }
    }

    /// Waits as long as the answer suggests.
    async fn rest(&mut self, got: usize, asked: usize, took: Duration) {
        if got == asked {
            self.empty = 0;
            return;
        }
        if got > 0 {
            self.empty = 0;
            // A short answer: what arrives during a pause as long as the claim itself comes with the next one.
            return self.pause(took.clamp(PAUSES[0], PAUSES[PAUSES.len() - 1])).await;
        }
        self.empty += 1;
        if self.empty < PAUSES.len() || self.engine.flow.pace() == Pace::Flowing {
            let step = self.empty.min(PAUSES.len()) - 1;
            return self.pause(PAUSES[step]).await;
        }
        if self.sleeper.sleep(&self.engine).await {
            self.empty = 0;
        }
    }

    /// Waits, unless a job is announced, the looker finds something or the worker drains.
    async fn pause(&self, length: Duration) {
        select! {
            () = tokio::time::sleep(length) => {}
            () = self.sleeper.stirred() => {}
            () = self.engine.flow.told_to_claim() => {}
            () = self.engine.draining.cancelled() => {}
        }
    }
}
