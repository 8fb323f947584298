//! Handlers that block the thread they run on.
//!
//! A future that does not come back from a poll keeps a thread of the service's runtime from everything else. Heartbeats
//! and cancellation do not depend on those threads, so nothing is rescued; but claims, other handlers and the service
//! itself wait. Each poll notes the tick at which it began, and a look from the side thread finds those that began long
//! ago and says once for each attempt who it is.
//!
//! The note is a number that the side thread counts up, not a time: two stores and a load, a few nanoseconds a poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::engine::Engine;
use crate::telemetry::{JOB_ID, JOB_KIND};

/// A poll that lasts this long, or up to one tick longer, is reported. Reasonable ones take well below a millisecond.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

/// The time between two looks.
const TICK: Duration = Duration::from_millis(250);

/// Ticks that have to pass during one poll: the first of them may have come right after it began.
const BLOCKED_TICKS: u32 = (BLOCKED_AFTER.as_millis() / TICK.as_millis()) as u32 + 1;

/// Counts ticks, from 1.
#[derive(Debug)]
pub(crate) struct Ticks(AtomicU32);

impl Default for Ticks {
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

impl Ticks {
    fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn advance(&self) -> u32 {
        // Past the end it begins at 1 again; a poll that lasts from before to after that, after 34 years, is not found.
        let next = self.now().checked_add(1).unwrap_or(1);
        self.0.store(next, Ordering::Relaxed);
        next
    }
}

/// When the poll began that an attempt is in.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    /// The tick, or 0 between polls.
    began: AtomicU32,
    reported: AtomicBool,
}

impl Polled {
    /// Whether its poll has lasted too long by `now`, and nobody has been told yet.
    pub(crate) fn is_news(&self, now: u32) -> bool {
        let began = self.began.load(Ordering::Relaxed);
        began != 0 && now.saturating_sub(began) >= BLOCKED_TICKS && !self.reported.swap(true, Ordering::Relaxed)
    }
}

/// A handler's future whose polls are noted.
pub(crate) struct Noted<'a, F> {
    inner: F,
    polled: &'a Polled,
    ticks: &'a Ticks,
}

impl<'a, F> Noted<'a, F> {
    pub(crate) fn new(inner: F, polled: &'a Polled, ticks: &'a Ticks) -> Self {
        Self { inner, polled, ticks }
    }
}

impl<F: Future + Unpin> Future for Noted<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.polled.began.store(self.ticks.now(), Ordering::Relaxed);
        let answer = Pin::new(&mut self.inner).poll(context);
        self.polled.began.store(0, Ordering::Relaxed);
        answer
    }
}

/// Looks for blocked threads until it is dropped.
pub(crate) async fn watch(engine: &Engine) {
    let mut ticks = tokio::time::interval(TICK);
    // After a pause of the whole process, nothing has lasted longer than what was seen of it.
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = engine.ticks.advance();
        for attempt in engine.attempts.select(|attempt| attempt.polled.is_news(now)) {
            tracing::warn!(
                { JOB_ID } = attempt.job_id().get(),
                { JOB_KIND } = %attempt.facts.kind,
                after = ?BLOCKED_AFTER,
                "a handler blocks its thread, on which others wait: let tokio::task::spawn_blocking do what takes long without an await"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_poll_that_lasts_is_news_and_only_once() {
        let (ticks, polled) = (Ticks::default(), Polled::default());
        let mut long_after = 0;
        for _ in 0..BLOCKED_TICKS * 3 {
            long_after = ticks.advance();
        }
        assert!(!polled.is_news(long_after), "it is not being polled");
        polled.began.store(ticks.now(), Ordering::Relaxed);
        for _ in 1..BLOCKED_TICKS {
            assert!(!polled.is_news(ticks.advance()));
        }
        assert!(polled.is_news(ticks.advance()));
        assert!(!polled.is_news(ticks.advance()), "it was told before");
    }
}
