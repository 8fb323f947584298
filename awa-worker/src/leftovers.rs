//! What a shutdown leaves unfinished: counted, and named as far as the list goes.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use awa_model::{JobId, Kind, QueueName};

use crate::attempts::Attempt;
use crate::telemetry::{JOB_ATTEMPT, JOB_ID, JOB_KIND, JOB_QUEUE};

/// Jobs that a report names, at most. Those beyond are counted, and logged like all others.
const UNFINISHED_MAX: usize = 1000;

/// What a shutdown left behind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How many jobs went back to their queue unfinished, without having spent an attempt.
    pub returned: usize,
    /// How many attempts could not be written down in time. Rescue finds them.
    pub left_to_rescue: usize,
    /// These jobs by name, the first thousand of them.
    pub unfinished: Vec<Unfinished>,
}

/// A job that a shutdown left unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// The job.
    pub job_id: JobId,
    /// Its kind.
    pub kind: Kind,
    /// The queue that it was claimed from.
    pub queue: QueueName,
    /// The number of the attempt.
    pub attempt: i16,
    /// How long this process had it.
    pub ran_for: Duration,
    /// What became of it.
    pub end: UnfinishedEnd,
}

/// What became of a job that a shutdown left unfinished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnfinishedEnd {
    /// It is back in its queue; the attempt was given back.
    Returned,
    /// The database did not take it back in time. It counts as running until rescue finds it.
    LeftToRescue,
}

/// The report while it is being written.
#[derive(Debug, Default)]
pub(crate) struct Leftovers(Mutex<ShutdownReport>);

impl Leftovers {
    /// Notes what became of an attempt, and logs it.
    pub(crate) fn note(&self, attempt: &Attempt, end: UnfinishedEnd) {
        let facts = &attempt.facts;
        let ran_for = attempt.since.elapsed();
        {
            let mut report = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *match end {
                UnfinishedEnd::Returned => &mut report.returned,
                UnfinishedEnd::LeftToRescue => &mut report.left_to_rescue,
            } += 1;
            if report.unfinished.len() < UNFINISHED_MAX {
                report.unfinished.push(Unfinished {
                    job_id: attempt.job_id(),
                    kind: facts.kind.clone(),
                    queue: facts.queue.clone(),
                    attempt: facts.attempt,
                    ran_for,
                    end,
                });
            }
        }
        let (id, number) = (attempt.job_id().get(), facts.attempt);
        match end {
            UnfinishedEnd::Returned => tracing::info!(
                { JOB_ID } = id,
                { JOB_KIND } = %facts.kind,
                { JOB_QUEUE } = %facts.queue,
                { JOB_ATTEMPT } = number,
                ?ran_for,
                "shutting down: a job goes back to its queue unfinished"
            ),
            UnfinishedEnd::LeftToRescue => tracing::warn!(
                { JOB_ID } = id,
                { JOB_KIND } = %facts.kind,
                { JOB_QUEUE } = %facts.queue,
                { JOB_ATTEMPT } = number,
                ?ran_for,
                "shutting down: a job could not be returned and is left to rescue"
            ),
        }
    }

    pub(crate) fn report(&self) -> ShutdownReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
