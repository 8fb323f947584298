//! The state machine, written here and nowhere else. `docs/state-machine.md` is rendered from [`EDGES`], and the tests of
//! the statements expect of every state and transition what it says: the edge's target, or an untouched row.

use std::fmt;

use crate::JobState::{self, Available, Cancelled, Completed, Failed, Retryable, Running, Scheduled, WaitingExternal};

/// What moves a job from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transition {
    /// A producer adds the job.
    Enqueue,
    /// Maintenance finds that its time has come.
    Promote,
    /// An operator does not want to wait for that time.
    RunNow,
    /// A worker takes it.
    Claim,
    /// Its handler returned `Ok`.
    Complete,
    /// Its handler returned an error that may pass, panicked, or ran out of time.
    Retry,
    /// Its handler asked for a later moment.
    Snooze,
    /// Its worker shut down before it was done.
    Release,
    /// Its handler waits for a callback from outside.
    Park,
    /// The callback arrived and the handler goes on.
    Resume,
    /// The callback arrived and says that nothing is left to do.
    CompleteExternally,
    /// The callback arrived and says that the job has failed.
    FailExternally,
    /// The callback did not arrive in time.
    CallbackTimeout,
    /// Its handler returned a fatal error.
    Fail,
    /// Its worker died, fell silent, or overran the deadline.
    Rescue,
    /// An operator or its handler calls it off.
    Cancel,
    /// Another job holds the unique key that its next state needs.
    Displace,
    /// An operator gives an ended job another life.
    OperatorRetry,
    /// An operator removes it.
    Delete,
    /// It ended longer ago than its retention.
    Prune,
}

/// One edge of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The state before; `None` where the job does not exist yet.
    pub from: Option<JobState>,
    /// What happens.
    pub by: Transition,
    /// The state after; `None` where the job is gone.
    pub to: Option<JobState>,
    /// Which of several edges with the same start is taken; empty where there is only this one.
    pub when: &'static str,
}

const fn edge(from: JobState, by: Transition, to: JobState) -> Edge {
    Edge { from: Some(from), by, to: Some(to), when: "" }
}

const fn born(to: JobState, when: &'static str) -> Edge {
    Edge { from: None, by: Transition::Enqueue, to: Some(to), when }
}

const fn gone(from: JobState, by: Transition) -> Edge {
    Edge { from: Some(from), by, to: None, when: "" }
}

impl Edge {
    const fn only(self, when: &'static str) -> Self {
        Self { when, ..self }
    }
}

const LEFT: &str = "attempts left";
const SPENT: &str = "attempts spent";
const OPEN: &str = "not answered yet";
const ANSWERED: &str = "resumed already";

/// Every edge there is. A statement that would move a job along another one changes nothing and says so.
pub const EDGES: &[Edge] = &[
    born(Available, "`run_at` has come"),
    born(Scheduled, "`run_at` lies ahead"),
    edge(Scheduled, Transition::Promote, Available),
    edge(Retryable, Transition::Promote, Available).only(LEFT),
    edge(Retryable, Transition::Promote, Failed).only(SPENT),
    edge(Scheduled, Transition::RunNow, Available),
    edge(Retryable, Transition::RunNow, Available),
    edge(Available, Transition::Claim, Running),
    edge(Running, Transition::Complete, Completed),
    edge(Running, Transition::Retry, Retryable).only(LEFT),
    edge(Running, Transition::Retry, Failed).only(SPENT),
    edge(Running, Transition::Snooze, Scheduled),
    edge(Running, Transition::Release, Available),
    edge(Running, Transition::Park, WaitingExternal).only(OPEN),
    edge(Running, Transition::Park, Available).only(ANSWERED),
    edge(WaitingExternal, Transition::Resume, Available),
    edge(WaitingExternal, Transition::CompleteExternally, Completed),
    edge(Running, Transition::CompleteExternally, Completed),
    edge(WaitingExternal, Transition::FailExternally, Failed),
    edge(Running, Transition::FailExternally, Failed),
    edge(WaitingExternal, Transition::CallbackTimeout, Retryable).only(LEFT),
    edge(WaitingExternal, Transition::CallbackTimeout, Failed).only(SPENT),
    edge(Running, Transition::Fail, Failed),
    edge(Running, Transition::Rescue, Retryable).only(LEFT),
    edge(Running, Transition::Rescue, Failed).only(SPENT),
    edge(Scheduled, Transition::Cancel, Cancelled),
    edge(Available, Transition::Cancel, Cancelled),
    edge(Running, Transition::Cancel, Cancelled),
    edge(WaitingExternal, Transition::Cancel, Cancelled),
    edge(Retryable, Transition::Cancel, Cancelled),
    edge(Scheduled, Transition::Displace, Cancelled),
    edge(Running, Transition::Displace, Cancelled),
    edge(WaitingExternal, Transition::Displace, Cancelled),
    edge(Retryable, Transition::Displace, Cancelled),
    edge(Failed, Transition::OperatorRetry, Available),
    edge(Cancelled, Transition::OperatorRetry, Available),
    gone(Scheduled, Transition::Delete),
    gone(Available, Transition::Delete),
    gone(Running, Transition::Delete),
    gone(WaitingExternal, Transition::Delete),
    gone(Retryable, Transition::Delete),
    gone(Completed, Transition::Delete),
    gone(Failed, Transition::Delete),
    gone(Cancelled, Transition::Delete),
    gone(Completed, Transition::Prune),
    gone(Failed, Transition::Prune),
    gone(Cancelled, Transition::Prune),
];

impl Transition {
    /// All transitions, in the order in which a job may meet them.
    pub const ALL: [Self; 20] = [
        Self::Enqueue,
        Self::Promote,
        Self::RunNow,
        Self::Claim,
        Self::Complete,
        Self::Retry,
        Self::Snooze,
        Self::Release,
        Self::Park,
        Self::Resume,
        Self::CompleteExternally,
        Self::FailExternally,
        Self::CallbackTimeout,
        Self::Fail,
        Self::Rescue,
        Self::Cancel,
        Self::Displace,
        Self::OperatorRetry,
        Self::Delete,
        Self::Prune,
    ];

    /// The edges of this transition that start at `from`: none where it is refused, several where [`when`](Edge::when) decides.
    pub fn edges_from(self, from: JobState) -> impl Iterator<Item = &'static Edge> {
        EDGES.iter().filter(move |edge| edge.by == self && edge.from == Some(from))
    }

    /// Whether a job in `from` can take this transition at all.
    pub fn is_allowed_from(self, from: JobState) -> bool {
        self.edges_from(from).next().is_some()
    }

    /// The name of this transition in docs and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Promote => "promote",
            Self::RunNow => "run now",
            Self::Claim => "claim",
            Self::Complete => "complete",
            Self::Retry => "retry",
            Self::Snooze => "snooze",
            Self::Release => "release",
            Self::Park => "park",
            Self::Resume => "resume",
            Self::CompleteExternally => "complete externally",
            Self::FailExternally => "fail externally",
            Self::CallbackTimeout => "callback timeout",
            Self::Fail => "fail",
            Self::Rescue => "rescue",
            Self::Cancel => "cancel",
            Self::Displace => "displace",
            Self::OperatorRetry => "operator retry",
            Self::Delete => "delete",
            Self::Prune => "prune",
        }
    }

    /// What happens, in words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Enqueue => "a producer adds the job",
            Self::Promote => "maintenance finds that its time has come",
            Self::RunNow => "an operator does not want to wait for that time",
            Self::Claim => "a worker takes it",
            Self::Complete => "its handler returned `Ok`",
            Self::Retry => "its handler returned an error that may pass, panicked, or ran out of time",
            Self::Snooze => "its handler asked for a later moment",
            Self::Release => "its worker shut down before it was done",
            Self::Park => "its handler waits for a callback from outside",
            Self::Resume => "the callback arrived and the handler goes on",
            Self::CompleteExternally => "the callback arrived and says that nothing is left to do",
            Self::FailExternally => "the callback arrived and says that the job has failed",
            Self::CallbackTimeout => "the callback did not arrive in time",
            Self::Fail => "its handler returned a fatal error",
            Self::Rescue => "its worker died, fell silent, or overran the deadline",
            Self::Cancel => "an operator or its handler calls it off",
            Self::Displace => "another job holds the unique key that its next state needs",
            Self::OperatorRetry => "an operator gives an ended job another life",
            Self::Delete => "an operator removes it",
            Self::Prune => "it ended longer ago than its retention",
        }
    }

    /// What the transition does to the job beside changing its state.
    pub const fn effects(self) -> &'static str {
        match self {
            Self::Enqueue => "the database clock decides; a unique job that exists already is not added",
            Self::Promote | Self::RunNow => "joins the end of its lane; `run_at` keeps the time at which it was due",
            Self::Claim => "attempt + 1, run_lease + 1; a deadline if it has a timeout",
            Self::Complete | Self::CompleteExternally => "progress cleared; result kept if there is one",
            Self::Retry | Self::Rescue | Self::CallbackTimeout => {
                "error recorded; while attempts are left, due after the backoff; progress kept"
            }
            Self::Snooze => "attempt given back, snoozes + 1; no error recorded; progress kept",
            Self::Release => "attempt given back; progress kept",
            Self::Park => {
                "no heartbeat and no deadline while it waits; the callback has a timeout of its own; progress kept"
            }
            Self::Resume => "attempt given back; what came with the answer is kept for the next one; progress kept",
            Self::Fail | Self::FailExternally => "error recorded; progress kept",
            Self::Cancel => "a running handler is told, and whatever it still returns is ignored; progress kept",
            Self::Displace => "error recorded, naming the other job; progress kept",
            Self::OperatorRetry => "attempt 0; run_lease goes on; errors and progress kept",
            Self::Delete => {
                "its unique key and callbacks go with it; a running handler is told, and what it returns is ignored"
            }
            Self::Prune => "its unique key and callbacks go with it",
        }
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod markdown;
#[cfg(test)]
mod tests;
