//! Looks, at a steady pace, for rows that claims have passed (design: the exact cursor).
//!
//! Claims take what lies beyond a cursor that is only a hint. Rows whose transaction committed late lie behind it; a look
//! finds each of them once its transaction has ended. While rows come, a tick every 25 ms keeps that delay small; a tick
//! that is slow itself is followed by a longer pause, so that looking takes a tenth of the time at most.

use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_storage::claim::Tick;
use tokio::select;

use crate::engine::Engine;
use crate::flow::Pace;
use crate::jitter;

/// The time between two ticks while work flows.
const TICK: Duration = Duration::from_millis(25);

/// A pause is at least this many times as long as the tick before it.
const PAUSE_PER_TICK: u32 = 9;

/// No pause between ticks that flow is longer.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Ticks without any movement before looking slows down.
const STILL_TICKS_MAX: u32 = 10;

/// How often the marks are persisted while rows come.
const PERSIST_INTERVAL: Duration = Duration::from_secs(1);

/// Ticks until the worker drains.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut looker = Looker { engine: Arc::clone(&engine), still: 0, persisted: Instant::now(), unpersisted: true };
    loop {
        let started = Instant::now();
        let pause = looker.pass(started).await;
        select! {
            () = tokio::time::sleep(pause) => {}
            () = engine.flow.told_to_look(), if engine.flow.pace() != Pace::Flowing => {}
            () = engine.draining.cancelled() => break,
        }
    }
    looker.persist().await;
}

struct Looker {
    engine: Arc<Engine>,
    /// Ticks in a row that saw nothing move.
    still: u32,
    persisted: Instant,
    unpersisted: bool,
}

impl Looker {
    /// One tick. Returns how long to wait for the next.
    async fn pass(&mut self, started: Instant) -> Duration {
        let flow = &self.engine.flow;
        let seen = flow.seen();
        match self.engine.bounded(self.engine.cursors.tick(&self.engine.pool)).await {
            Ok(tick) => {
                if tick.found > 0 {
                    flow.claim();
                }
                let (pace, still) = pace(tick, self.still);
                self.still = still;
                flow.set_pace(pace, seen);
                self.unpersisted |= tick.moved;
            }
            Err(error) => {
                tracing::warn!(%error, "looking for passed rows failed: trying again");
                flow.set_pace(Pace::Flowing, seen);
                return jitter::lengthened(PAUSE_MAX);
            }
        }
        let pace = flow.pace();
        if pace == Pace::Quiet || self.persisted.elapsed() >= PERSIST_INTERVAL {
            self.persist().await;
        }
        match pace {
            Pace::Flowing => (started.elapsed() * PAUSE_PER_TICK).clamp(TICK, PAUSE_MAX),
            Pace::Lull => jitter::lengthened(self.engine.config.poll_interval),
            Pace::Quiet => Duration::MAX,
        }
    }

    /// Keeps the marks, so that a new worker need not start from the beginning.
    async fn persist(&mut self) {
        if !std::mem::take(&mut self.unpersisted) {
            return;
        }
        self.persisted = Instant::now();
        if let Err(error) = self.engine.bounded(self.engine.cursors.persist_marks(&self.engine.pool)).await {
            self.unpersisted = true;
            tracing::warn!(%error, "the marks could not be persisted: trying again");
        }
    }
}

/// How to go on after a tick, and how many ticks in a row were still.
fn pace(tick: Tick, still: u32) -> (Pace, u32) {
    if tick.moved || tick.found > 0 {
        return (Pace::Flowing, 0);
    }
    let still = still.saturating_add(1);
    if tick.settled {
        (Pace::Quiet, still)
    } else if still < STILL_TICKS_MAX {
        (Pace::Flowing, still)
    } else {
        (Pace::Lull, still)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick() -> Tick {
        Tick::default()
    }

    #[test]
    fn looking_stops_only_when_nothing_is_left_and_nothing_moved() {
        assert_eq!(pace(Tick { settled: true, ..tick() }, 0).0, Pace::Quiet);
        assert_eq!(pace(Tick { settled: true, moved: true, ..tick() }, 0).0, Pace::Flowing);
        assert_eq!(pace(Tick { found: 1, ..tick() }, 100), (Pace::Flowing, 0));
    }

    #[test]
    fn what_only_time_resolves_is_looked_at_slowly() {
        let waiting = Tick { set_aside: true, ..tick() };
        assert_eq!(pace(waiting, 0).0, Pace::Flowing);
        assert_eq!(pace(waiting, STILL_TICKS_MAX).0, Pace::Lull);
        assert_eq!(pace(Tick { moved: true, ..waiting }, STILL_TICKS_MAX), (Pace::Flowing, 0));
    }
}
