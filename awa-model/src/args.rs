//! What makes a type the arguments of a job.

use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use crate::{Unique, limits};

/// The arguments of one kind of job, and what such jobs are like unless an enqueue says otherwise.
///
/// Derive it with `#[derive(JobArgs)]` beside serde's `Serialize` and `Deserialize`. The args are stored as jsonb and read
/// back by whichever version of the program claims the job, so the rules for stored data hold: add fields with
/// `#[serde(default)]`, and give a renamed type its old `kind`.
///
/// The constants are checked when a job is enqueued, by the same rules as values given at the call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the arguments of a job",
    label = "no `JobArgs`",
    note = "add `#[derive(serde::Serialize, serde::Deserialize, JobArgs)]` to it"
)]
pub trait JobArgs: Serialize + DeserializeOwned + Send + 'static {
    /// The name under which workers find the handler. Never change it while jobs of this kind exist.
    const KIND: &'static str;

    /// Kinds that the same handler also runs: names that such jobs had before, or that other programs give them. What is
    /// enqueued with these args always gets [`KIND`](Self::KIND), and jobs of different kinds are never duplicates of each
    /// other. Remove an alias when no job of that kind is left.
    const ALIASES: &'static [&'static str] = &[];

    /// What the job produces; `()` if nothing.
    type Output: Serialize + DeserializeOwned + Send + 'static;

    /// The queue.
    const QUEUE: &'static str = limits::QUEUE_DEFAULT;

    /// The urgency within the queue: 1 (first) to 4 (last).
    const PRIORITY: i16 = limits::PRIORITY_DEFAULT;

    /// How often the job is tried, the first time included.
    const MAX_ATTEMPTS: i16 = limits::MAX_ATTEMPTS_DEFAULT;

    /// How long one attempt may take; without limit if `None`.
    const TIMEOUT: Option<Duration> = None;

    /// Tags that every job enqueued with these args gets, before those given at the call; see
    /// [`NewJob::without_tags`](crate::NewJob::without_tags).
    const TAGS: &'static [&'static str] = &[];

    /// Which other job makes a new one superfluous, if any does.
    fn unique() -> Option<Unique> {
        None
    }
}
