//! Whether work flows: what the dispatcher and the looker tell each other.
//!
//! The dispatcher claims, the looker finds what claims have passed. Neither waits for the other. The looker stops when
//! there is nothing left to look at; then the dispatcher may sleep, since only a new row can bring work, and a pulse sees
//! every new row.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use tokio::sync::Notify;

/// How much there is to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Rows come or may come soon: look every tick.
    Flowing,
    /// Nothing moves, but something is left that time or another process will resolve: look at the idle poll.
    Lull,
    /// Nothing is left: look again when a pulse has moved.
    Quiet,
}

impl Pace {
    const ALL: [Self; 3] = [Self::Flowing, Self::Lull, Self::Quiet];
}

/// The state that both share.
#[derive(Debug)]
pub(crate) struct Flow {
    pace: AtomicU8,
    /// How often the dispatcher has seen work.
    seen: AtomicU64,
    look: Notify,
    claim: Notify,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self {
            pace: AtomicU8::new(Pace::Flowing as u8),
            seen: AtomicU64::new(0),
            look: Notify::new(),
            claim: Notify::new(),
        }
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace::ALL[usize::from(self.pace.load(Ordering::SeqCst))]
    }

    /// How often work was seen: to be asked before a tick, and given to [`Self::set_pace`] after it.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }

    /// The looker says how it goes, by a tick that began when work had been seen `seen` times.
    ///
    /// If more was seen since, the tick may have begun before that, so it cannot say that nothing is left.
    pub(crate) fn set_pace(&self, pace: Pace, seen: u64) {
        self.pace.store(pace as u8, Ordering::SeqCst);
        // After the store: a look in between finds either the new pace or its count seen here.
        if self.seen() != seen {
            self.pace.store(Pace::Flowing as u8, Ordering::SeqCst);
        }
    }

    /// The dispatcher has seen work: the looker looks again, at once if it has stopped.
    pub(crate) fn look(&self) {
        self.seen.fetch_add(1, Ordering::SeqCst);
        if self.pace() != Pace::Flowing {
            self.pace.store(Pace::Flowing as u8, Ordering::SeqCst);
            self.look.notify_one();
        }
    }

    pub(crate) async fn told_to_look(&self) {
        self.look.notified().await;
    }

    /// The looker has found rows that claims had passed: claim now.
    pub(crate) fn claim(&self) {
        self.claim.notify_one();
    }

    pub(crate) async fn told_to_claim(&self) {
        self.claim.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_seen_during_a_tick_outlives_what_the_tick_says() {
        let flow = Flow::new();
        let seen = flow.seen();
        flow.look();
        flow.set_pace(Pace::Quiet, seen);
        assert_eq!(flow.pace(), Pace::Flowing);
        flow.set_pace(Pace::Quiet, flow.seen());
        assert_eq!(flow.pace(), Pace::Quiet);
    }

    #[tokio::test]
    async fn work_seen_after_the_looker_has_stopped_wakes_it() {
        let flow = Flow::new();
        flow.set_pace(Pace::Quiet, flow.seen());
        flow.look();
        flow.told_to_look().await;
        assert_eq!(flow.pace(), Pace::Flowing);
    }
}
