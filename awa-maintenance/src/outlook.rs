//! When the next schedule asks for something, as promotion has heard along the way.
//!
//! Both duties look once a second while nothing happens. The statement of promotion asks for schedules as well, so that an idle
//! leader sends one of the two. Neither depends on the other: whatever is wrong with schedules, promotion hears nothing and goes on,
//! and schedules that hear nothing of promotion for longer than their interval look for themselves.
//!
//! What is heard is never more than a reason not to look. It counts for a while, and only if it was asked for after the last look,
//! which may have changed what is due; after a look that failed nothing counts until one has succeeded.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// Shared by the promoter and the scheduler of one process.
#[derive(Debug, Default)]
pub(crate) struct Outlook {
    known: Mutex<Known>,
    news: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// When promotion last asked, whatever the answer was.
    asked: Option<Instant>,
    heard: Option<Heard>,
    /// When the last look at the schedules ended; none while there is one, and after one that failed.
    looked: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    asked: Instant,
    /// None: never, as far as can be said.
    due: Option<Instant>,
}

impl Outlook {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether promotion is to ask now: not if it did within `interval`.
    pub(crate) fn is_to_be_asked(&self, interval: Duration) -> bool {
        self.known().asked.is_none_or(|asked| asked.elapsed() >= interval)
    }

    /// Notes what promotion heard when it asked at that time: nothing, or in how long a schedule asks for something.
    pub(crate) fn hear(&self, asked: Instant, due_in: Option<Duration>) {
        let mut known = self.known();
        known.asked = Some(asked);
        let Some(due_in) = due_in else { return };
        if known.looked.is_some_and(|looked| asked >= looked) {
            known.heard = Some(Heard { asked, due: Instant::now().checked_add(due_in) });
            self.news.notify_one();
        }
    }

    /// Waits for something to be heard.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    /// How long nothing is due, by what was heard, which counts for `lasting`. `None`: it is time to look.
    pub(crate) fn rest(&self, lasting: Duration) -> Option<Duration> {
        let heard = self.known().heard?;
        let stale = heard.asked + lasting;
        let until = heard.due.map_or(stale, |due| due.min(stale));
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// A look at the schedules begins: what was heard until it has succeeded does not count.
    pub(crate) fn look(&self) {
        let mut known = self.known();
        known.looked = None;
        known.heard = None;
    }

    /// A look has succeeded.
    pub(crate) fn looked(&self) {
        self.known().looked = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests;
