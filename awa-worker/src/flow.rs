//! Whether work flows: what the dispatcher and the looker tell each other.
//!
//! The dispatcher claims, the looker finds what claims have passed. Neither waits for the other. The looker stops when
//! there is nothing left to look at; then the dispatcher may sleep, since only a new row can bring work, and a pulse sees
//! every new row.

use std::sync::atomic::{AtomicU8, Ordering};

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
    look: Notify,
    claim: Notify,
}

impl Flow {
    pub(crate) fn new() -> Self {
        Self { pace: AtomicU8::new(Pace::Flowing as u8), look: Notify::new(), claim: Notify::new() }
    }

    pub(crate) fn pace(&self) -> Pace {
        Pace::ALL[usize::from(self.pace.load(Ordering::Acquire))]
    }

    /// The looker says how it goes.
    pub(crate) fn set_pace(&self, pace: Pace) {
        self.pace.store(pace as u8, Ordering::Release);
    }

    /// The dispatcher has seen work: the looker looks again, at once if it has stopped.
    pub(crate) fn look(&self) {
        if self.pace() != Pace::Flowing {
            self.set_pace(Pace::Flowing);
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
