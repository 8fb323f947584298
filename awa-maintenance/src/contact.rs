//! Whether the database was away for long, as this process saw it.
//!
//! While it is away nobody can give a sign of life. When it is back, rescue would take every attempt of a healthy fleet for
//! dead, so it has to wait until those that live have had the time to say so. Every process stands for election every few
//! seconds, leading or not; that tells how long the database did not answer. A process that has just started has seen no
//! absence, and rescues at once what the dead left behind.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// When the database answered last, and when it came back from its last absence. Goes by the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Contact(Mutex<Seen>);

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    answered: Option<Instant>,
    returned: Option<Instant>,
}

impl Contact {
    /// Notes an answer. One that comes more than `absence` after the one before it ends an absence.
    pub(crate) fn answered(&self, absence: Duration) {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.answered.is_some_and(|last| now.duration_since(last) > absence) {
            tracing::warn!("the database is back: rescue waits for signs of life");
            seen.returned = Some(now);
        }
        seen.answered = Some(now);
    }

    /// How much is left of `patience` since the database came back; nothing if it was never away, or long ago.
    pub(crate) fn patience_left(&self, patience: Duration) -> Option<Duration> {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let left = patience.checked_sub(seen.returned?.elapsed())?;
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use awa_model::WorkerId;
    use awa_storage::testing::TestDatabase;

    use super::*;
    use crate::{Duty as _, Elector, MaintenanceConfig, Next, Rescuer};

    const TERM: Duration = Duration::from_secs(15);
    const PATIENCE: Duration = Duration::from_secs(45);

    #[tokio::test(start_paused = true)]
    async fn only_an_absence_that_was_seen_asks_for_patience_and_only_for_a_while() {
        let contact = Contact::default();
        contact.answered(TERM);
        tokio::time::advance(TERM).await;
        contact.answered(TERM);
        assert_eq!(contact.patience_left(PATIENCE), None);
        tokio::time::advance(TERM * 20).await;
        contact.answered(TERM);
        assert_eq!(contact.patience_left(PATIENCE), Some(PATIENCE));
        tokio::time::advance(TERM).await;
        contact.answered(TERM);
        assert_eq!(contact.patience_left(PATIENCE), Some(PATIENCE - TERM));
        tokio::time::advance(PATIENCE - TERM).await;
        assert_eq!(contact.patience_left(PATIENCE), None);
    }

    /// DUP-01: a database that comes back after longer than a staleness.
    #[tokio::test]
    async fn rescue_waits_for_signs_of_life_when_the_database_was_away() {
        let database = TestDatabase::new().await;
        let config = MaintenanceConfig::default();
        let contact = Arc::<Contact>::default();
        let rescuer = Rescuer::watching(database.pool(), config, Arc::clone(&contact));
        let mut elector = Elector::new(database.pool(), WorkerId::random(), TERM).telling(contact);
        assert!(elector.stand().await.expect("an answer"));
        let usual = Next::In(config.rescue_interval);
        assert_eq!(rescuer.pass().await.expect("a pass").next, usual);
        for (away, rests) in [(config.staleness, true), (config.heartbeat * 2, false)] {
            tokio::time::pause();
            tokio::time::advance(away).await;
            tokio::time::resume();
            if rests {
                elector.stand().await.expect("an answer");
            }
            assert_eq!(rescuer.pass().await.expect("a pass").next != usual, rests, "{away:?}");
        }
    }
}
