//! Ending a worker in order.
//!
//! 1. Nothing more is claimed. Looking and maintenance end; heartbeats and the connection that listens go on.
//! 2. Drain: running handlers may finish, for as long as was asked.
//! 3. Handlers that still run are asked to stop, and get a grace to do so. What has stopped goes back at once.
//! 4. What is then still held goes back to its queue without having spent an attempt; its handler is cut off at its next
//!    await.
//! 5. Outcomes are written, the process is taken off the list of workers, connections are closed.
//!
//! Asking again while this goes on, from anywhere, waits for the same end, or hastens it if less time is given.
//!
//! A database that hangs delays this by no more than named times: step 1 by
//! [`DRAINING_STATEMENT_MAX`](crate::bounded::DRAINING_STATEMENT_MAX) while steps 2 and 3 go on, steps 4 and 5 by [`SETTLE_MAX`],
//! [`GIVE_UP_MAX`], [`CLOSE_MAX`](crate::side::CLOSE_MAX) and [`GOODBYE_MAX`]. What could not be written by then is left to
//! rescue.

use std::sync::Arc;
use std::time::Duration;

use tokio::select;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::attempts::CancelReason;
use crate::engine::Engine;
use crate::failure::Error;
use crate::leftovers::ShutdownReport;

/// How long outcomes may take to be written once all handlers are done.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// How long it may take that what was given up is let go of: no statement is waited for any more.
const GIVE_UP_MAX: Duration = Duration::from_secs(1);

/// How long saying goodbye to the database and closing its connections may take.
pub(crate) const GOODBYE_MAX: Duration = Duration::from_secs(5);

/// How to end a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// Claims nothing more and lets running jobs finish for up to `timeout`; then as [`Shutdown::Now`].
    Drain {
        /// How long running jobs may go on.
        timeout: Duration,
    },
    /// Asks running handlers to stop, gives them the configured `cancel_grace` to do so, and returns their jobs to the
    /// queue without spending an attempt.
    Now,
}

impl Shutdown {
    fn deadline(self) -> Instant {
        let now = Instant::now();
        match self {
            // A timeout beyond what the clock can say is as good as a year.
            Self::Drain { timeout } => {
                now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(365 * 24 * 3600))
            }
            Self::Now => now,
        }
    }
}

/// The wish to end, as it reaches the supervisor: nothing yet, or when draining ends.
pub(crate) type Wish = Option<Instant>;

/// Voices a wish. One that leaves less time replaces one that leaves more, and not the other way round.
pub(crate) fn wish(wishes: &watch::Sender<Wish>, how: Shutdown) {
    let deadline = how.deadline();
    wishes.send_if_modified(|wish| {
        let sooner = wish.is_none_or(|earlier| deadline < earlier);
        if sooner {
            *wish = Some(deadline);
        }
        sooner
    });
}

/// The state of a worker's end, as those who wait for it see it.
#[derive(Debug, Clone)]
pub(crate) enum Ended {
    NotYet,
    Orderly(ShutdownReport),
    /// A part of the worker failed; the rest was shut down in order.
    Failed(&'static str),
}

impl Ended {
    pub(crate) fn into_result(self) -> Option<Result<ShutdownReport, Error>> {
        match self {
            Self::NotYet => None,
            Self::Orderly(report) => Some(Ok(report)),
            Self::Failed(part) => Some(Err(Error::Stopped { part })),
        }
    }
}

/// Steps 2 to 4: lets handlers finish, asks them to stop, returns their jobs.
pub(crate) async fn drain(engine: &Arc<Engine>, wishes: &mut watch::Receiver<Wish>) {
    engine.handlers.close();
    if finished_before_deadline(engine, wishes).await {
        return;
    }
    for attempt in engine.attempts.all() {
        attempt.cancel(CancelReason::Shutdown);
    }
    let _ = timeout_at(Instant::now() + engine.config.cancel_grace, engine.handlers.wait()).await;
    for attempt in engine.attempts.all() {
        engine.give_back(attempt, None);
    }
}

/// Waits for handlers and outcomes while the deadline, which may be moved forward meanwhile, lets it.
async fn finished_before_deadline(engine: &Engine, wishes: &mut watch::Receiver<Wish>) -> bool {
    let finished = async {
        engine.handlers.wait().await;
        engine.attempts.emptied().await;
    };
    tokio::pin!(finished);
    loop {
        let deadline = wishes.borrow_and_update().unwrap_or_else(Instant::now);
        select! {
            biased;
            () = &mut finished => return true,
            () = tokio::time::sleep_until(deadline) => return false,
            Ok(()) = wishes.changed() => {}
        }
    }
}

/// Step 5, its first part: waits until everything is written, and gives up what cannot be.
pub(crate) async fn settle(engine: &Engine) {
    let _ = timeout_at(Instant::now() + SETTLE_MAX, engine.attempts.emptied()).await;
    engine.abandoned.cancel();
    // What hears of that lets go of its attempt, and notes that it is left to rescue.
    let _ = timeout_at(Instant::now() + GIVE_UP_MAX, engine.attempts.emptied()).await;
}
