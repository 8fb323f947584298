//! Which steps an attempt is at, and which it has taken.
//!
//! A step runs once, also where a handler asks for it twice at once: the second waits for the first and gets its result.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The steps of one attempt, by name. Pure memory: nothing is awaited while the mutex is held.
#[derive(Debug, Default)]
pub(crate) struct StepsTaken {
    steps: Mutex<HashMap<String, Step>>,
    /// Told whenever a turn ends.
    ended: Notify,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// Somebody has its turn.
    Running,
    /// Taken in this attempt: its result came with this generation of the progress.
    Taken(u64),
}

/// The right to take one step. Dropped without a result, the next may try.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    taken: &'a StepsTaken,
    name: &'a str,
    generation: Option<u64>,
}

impl StepsTaken {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else is at this step.
    pub(crate) async fn turn<'a>(&'a self, name: &'a str) -> Turn<'a> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Listening begins before the look, so that an end in between is heard.
            ended.as_mut().enable();
            if let Some(turn) = self.try_turn(name) {
                return turn;
            }
            ended.await;
        }
    }

    fn try_turn<'a>(&'a self, name: &'a str) -> Option<Turn<'a>> {
        let mut steps = self.lock();
        let generation = match steps.get(name) {
            Some(Step::Running) => return None,
            Some(Step::Taken(generation)) => Some(*generation),
            None => None,
        };
        steps.insert(name.to_owned(), Step::Running);
        Some(Turn { taken: self, name, generation })
    }
}

impl Turn<'_> {
    /// The generation that the step's result came with, if it was taken in this attempt.
    pub(crate) fn generation(&self) -> Option<u64> {
        self.generation
    }

    /// The step has a result now, which came with this generation.
    pub(crate) fn took(&mut self, generation: u64) {
        self.generation = Some(generation);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut steps = self.taken.lock();
        match self.generation {
            Some(generation) => {
                steps.insert(self.name.to_owned(), Step::Taken(generation));
            }
            None => {
                steps.remove(self.name);
            }
        }
        drop(steps);
        self.taken.ended.notify_waiters();
    }
}
