//! Capacity: how many jobs of each queue this process may hold.
//!
//! A slot is taken before a claim asks for a job and given back when two things are over: the handler has returned, and
//! the settlement is durable or has been given up (I3). Only the dispatcher takes slots, so what it sees as free stays
//! free until it takes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use awa_model::QueueName;
use tokio::sync::Notify;

use crate::config::ServedQueue;

/// The slots of every queue served.
#[derive(Debug)]
pub(crate) struct Slots {
    /// By name.
    queues: Vec<Arc<Lane>>,
    freed: Arc<Notify>,
}

#[derive(Debug)]
struct Lane {
    name: QueueName,
    timeout: Option<Duration>,
    free: AtomicUsize,
    freed: Arc<Notify>,
}

/// The right to hold one job. Dropping it gives the capacity back.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Lane>);

impl Slot {
    /// The time that one attempt of its queue may take.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.0.timeout
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::AcqRel);
        self.0.freed.notify_one();
    }
}

impl Slots {
    pub(crate) fn new(queues: &[ServedQueue]) -> Self {
        let freed = Arc::new(Notify::new());
        let lane = |queue: &ServedQueue| {
            Arc::new(Lane {
                name: queue.name.clone(),
                timeout: queue.timeout,
                free: AtomicUsize::new(queue.max_workers),
                freed: Arc::clone(&freed),
            })
        };
        let mut queues: Vec<Arc<Lane>> = queues.iter().map(lane).collect();
        queues.sort_by(|one, other| one.name.cmp(&other.name));
        Self { queues, freed }
    }

    /// What a claim may ask for now: the free slots of each queue, none with zero, together at most `limit`.
    ///
    /// Queues take turns at being first (`turn`), so that a full one cannot keep the others from their share of `limit`.
    pub(crate) fn demand(&self, limit: usize, turn: usize) -> Vec<(QueueName, usize)> {
        let mut left = limit;
        let mut wants = Vec::new();
        for place in 0..self.queues.len() {
            let lane = &self.queues[(turn + place) % self.queues.len()];
            let wanted = lane.free.load(Ordering::Acquire).min(left);
            if wanted > 0 {
                left -= wanted;
                wants.push((lane.name.clone(), wanted));
            }
        }
        wants
    }

    /// Takes a slot for a job that was claimed against [`Self::demand`].
    pub(crate) fn take(&self, queue: &QueueName) -> Option<Slot> {
        let lane = &self.queues[self.queues.binary_search_by(|lane| lane.name.cmp(queue)).ok()?];
        let taken = lane.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1));
        taken.ok().map(|_| Slot(Arc::clone(lane)))
    }

    /// Resolves when a slot has come back since it last resolved.
    pub(crate) async fn freed(&self) {
        self.freed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(limits: &[(&str, usize)]) -> Slots {
        let queue = |(name, max_workers): &(&str, usize)| ServedQueue {
            name: QueueName::new((*name).to_owned()).unwrap(),
            max_workers: *max_workers,
            timeout: None,
        };
        Slots::new(&limits.iter().map(queue).collect::<Vec<_>>())
    }

    fn demand(slots: &Slots, limit: usize, turn: usize) -> Vec<(String, usize)> {
        slots.demand(limit, turn).into_iter().map(|(name, wanted)| (name.to_string(), wanted)).collect()
    }

    #[test]
    fn a_claim_never_asks_for_more_than_is_free() {
        let slots = slots(&[("a", 2)]);
        let queue = QueueName::new("a").unwrap();
        let first = slots.take(&queue).unwrap();
        assert_eq!(demand(&slots, 10, 0), [("a".to_owned(), 1)]);
        let _second = slots.take(&queue).unwrap();
        assert!(slots.take(&queue).is_none());
        assert!(demand(&slots, 10, 0).is_empty());
        drop(first);
        assert_eq!(demand(&slots, 10, 0), [("a".to_owned(), 1)]);
    }

    #[test]
    fn queues_take_turns_at_a_limited_batch() {
        let slots = slots(&[("a", 100), ("b", 100)]);
        assert_eq!(demand(&slots, 100, 0), [("a".to_owned(), 100)]);
        assert_eq!(demand(&slots, 100, 1), [("b".to_owned(), 100)]);
    }

    #[tokio::test]
    async fn a_slot_that_comes_back_is_heard_even_if_nobody_listened() {
        let slots = slots(&[("a", 1)]);
        drop(slots.take(&QueueName::new("a").unwrap()));
        slots.freed().await;
    }
}
