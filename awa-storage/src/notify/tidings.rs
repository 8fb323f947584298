//! What is told to one worker: attempts that were taken from it.

use std::sync::{Mutex, PoisonError};

use awa_model::{JobId, RunLease};
use tokio::sync::Notify;

use crate::fate::Fate;

/// Names that are kept for a consumer that is busy. With more it has to look at everything it holds, which is cheaper then.
const TOLD_MAX: usize = 1024;

/// An attempt that was taken from the worker, as the notification named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The job.
    pub job_id: JobId,
    /// The claim: a later attempt of the same job is not meant.
    pub run_lease: RunLease,
    /// What became of it.
    pub why: Fate,
}

impl Told {
    /// Reads the payload of `awa.tell_worker`: id, lease and a word.
    pub(super) fn read(payload: &str) -> Option<Self> {
        let mut words = payload.splitn(3, ' ');
        let (job_id, run_lease) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self { job_id: JobId::new(job_id), run_lease: RunLease::new(run_lease), why: Fate::read(words.next()?) })
    }
}

/// What [`Listener::told`](super::Listener::told) answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tidings {
    /// These were taken, in the order of the notifications.
    Taken(Vec<Told>),
    /// Something may have been missed: the connection was down, or more came than is kept. Look at all that is held.
    Missed,
}

/// A bounded box between the connection and whoever looks after the attempts.
#[derive(Debug, Default)]
pub(super) struct Letterbox {
    content: Mutex<Content>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Content {
    told: Vec<Told>,
    missed: bool,
}

impl Letterbox {
    pub(super) fn put(&self, told: Told) {
        self.change(|content| {
            if content.told.len() >= TOLD_MAX {
                content.told = Vec::new();
                content.missed = true;
            }
            if !content.missed {
                content.told.push(told);
            }
        });
    }

    pub(super) fn may_have_missed(&self) {
        self.change(|content| *content = Content { told: Vec::new(), missed: true });
    }

    fn change(&self, change: impl FnOnce(&mut Content)) {
        change(&mut self.content.lock().unwrap_or_else(PoisonError::into_inner));
        self.filled.notify_one();
    }

    /// Empties the box, waiting for something to be in it.
    pub(super) async fn next(&self) -> Tidings {
        loop {
            let content = std::mem::take(&mut *self.content.lock().unwrap_or_else(PoisonError::into_inner));
            match content {
                Content { missed: true, .. } => return Tidings::Missed,
                Content { told, .. } if !told.is_empty() => return Tidings::Taken(told),
                Content { .. } => self.filled.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use awa_model::JobState;

    use super::*;

    #[test]
    fn payloads_read_back_and_others_say_nothing() {
        let told = |why| Some(Told { job_id: JobId::new(7), run_lease: RunLease::new(3), why });
        for (word, why) in [
            (JobState::Cancelled.as_str(), Fate::Cancelled),
            ("deleted", Fate::Deleted),
            ("answered", Fate::Answered),
            ("rescued", Fate::Rescued),
            ("a word of a later version", Fate::Rescued),
        ] {
            assert_eq!(Told::read(&format!("7 3 {word}")), told(why));
        }
        for nonsense in ["", "7", "7 3", "x 3 cancelled", "7 99999999999999999999 cancelled"] {
            assert_eq!(Told::read(nonsense), None, "{nonsense:?}");
        }
    }

    #[tokio::test]
    async fn more_than_is_kept_means_look_at_everything_once() {
        let told = Told { job_id: JobId::new(7), run_lease: RunLease::new(3), why: Fate::Cancelled };
        let full = Letterbox::default();
        for _ in 0..TOLD_MAX {
            full.put(told);
        }
        assert_eq!(full.next().await, Tidings::Taken(vec![told; TOLD_MAX]));
        for _ in 0..=TOLD_MAX {
            full.put(told);
        }
        assert_eq!(full.next().await, Tidings::Missed);
        full.put(told);
        assert_eq!(full.next().await, Tidings::Taken(vec![told]));
    }
}
