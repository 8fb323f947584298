//! Waiting for a job: its changes as they come, or its output.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use awa_model::{JobArgs, JobId, JobState};
use awa_storage::Error as StorageError;
use awa_storage::admin::JobStatus;
use futures_util::stream::{BoxStream, Stream, StreamExt as _, unfold};

use crate::client::Client;
use crate::watched::{Sight, WATCHED_MAX, Waiter};

/// Watching jobs, through the client's pool: one statement a tick for all that are watched, however many those are.
///
/// The database role needs the bundle `viewer` or `operator`, unless it owns the schema.
impl Client {
    /// Waits until a job has ended, and gives what it produced: `client.wait(&inserted, MINUTE)`.
    ///
    /// Begins, if need be, before the transaction that enqueues the job has committed. An outage of the database is waited
    /// out. A retry is part of the wait: only `completed`, `failed` and `cancelled` end it. Dropping the future ends the wait
    /// and leaves nothing behind; the job is not touched by any of this.
    ///
    /// # Errors
    /// [`WaitError`] says how it ended otherwise.
    pub async fn wait<A: JobArgs>(&self, job: impl Into<JobId<A>>, timeout: Duration) -> Result<A::Output, WaitError> {
        let job = job.into().untyped();
        let mut waiter = self.waiter(job)?;
        let ended = tokio::time::timeout(timeout, async {
            loop {
                if let Some(ended) = ended(job, waiter.sight()) {
                    return ended;
                }
                waiter.changed().await;
            }
        });
        match ended.await {
            Ok(ended) => output::<A>(job, &*ended?),
            Err(_) => {
                let Sight { status, error, .. } = waiter.sight();
                let (seen, paused) = status.map(|status| (status.state, status.paused)).unzip();
                Err(WaitError::TimedOut { job, seen, paused: paused.unwrap_or(false), source: error })
            }
        }
    }

    /// The changes of a job, from its present state on: each time that its state, attempt, due time, error or stored
    /// progress is another, or its queue is paused or goes on. Ends after `completed`, `failed` or `cancelled`.
    ///
    /// What changes twice between two looks is seen once, as it is then. Looks come within milliseconds of the start of the
    /// watch and of each change, then ever more seldom, at least once a second. Begins, if need be, before the transaction
    /// that enqueues the job has committed; an outage of the database is waited out. Dropping it leaves nothing behind.
    pub fn watch<A>(&self, job: impl Into<JobId<A>>) -> Watch {
        let job = job.into().untyped();
        let client = self.clone();
        let start = Stage::Begin(client);
        Watch { changes: Box::pin(unfold(start, move |stage| next(job, stage))) }
    }

    fn waiter(&self, job: JobId) -> Result<Waiter, WaitError> {
        self.watched().join(job).ok_or(WaitError::TooMany { most: WATCHED_MAX })
    }
}

/// The changes of one job; see [`Client::watch`].
#[must_use = "a stream does nothing unless it is polled"]
pub struct Watch {
    changes: BoxStream<'static, Result<JobStatus, WaitError>>,
}

impl Watch {
    /// The next change; `None` after the last.
    ///
    /// # Errors
    /// [`WaitError::Gone`] when the job was deleted, [`WaitError::TooMany`] and [`WaitError::Storage`]; each is the end.
    pub async fn next(&mut self) -> Option<Result<JobStatus, WaitError>> {
        self.changes.next().await
    }
}

impl Stream for Watch {
    type Item = Result<JobStatus, WaitError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.changes.as_mut().poll_next(context)
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// Why a wait did not end with the output of the job.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The time was over first. The job goes on.
    #[error(
        "job {job} had not ended in time: it was {}{}",
        seen.map_or("never seen", JobState::as_str),
        if *paused { ", and its queue is paused" } else { "" }
    )]
    TimedOut {
        /// The job.
        job: JobId,
        /// The state it was last seen in; `None` if it was never seen: not committed yet, or gone before the wait.
        seen: Option<JobState>,
        /// Its queue was paused when it was last seen: no worker takes jobs from it.
        paused: bool,
        /// What kept the last look from seeing more, if something did.
        source: Option<Arc<StorageError>>,
    },
    /// The job has failed for good.
    #[error("job {job} failed: {error}")]
    Failed {
        /// The job.
        job: JobId,
        /// Its last error.
        error: String,
    },
    /// The job was called off, by an operator, by its handler, or by another job that took its unique key.
    #[error("job {job} was cancelled: {}", reason.as_deref().unwrap_or("nobody said why"))]
    Cancelled {
        /// The job.
        job: JobId,
        /// Why, if somebody said so.
        reason: Option<String>,
    },
    /// The job was deleted, or has outlived its retention, while it was watched.
    #[error("job {job} is not there any more")]
    Gone {
        /// The job.
        job: JobId,
    },
    /// The job has completed, but what it produced is not of the type that the args name.
    #[error("the output of job {job} is not of the type that is waited for")]
    Output {
        /// The job.
        job: JobId,
        /// What does not fit.
        source: Arc<serde_json::Error>,
    },
    /// The client waits for as many jobs as it may already.
    #[error("{most} jobs are being waited for by this client already")]
    TooMany {
        /// How many it may wait for at once.
        most: usize,
    },
    /// The database refuses to say, and asking again would not help.
    #[error("the job cannot be looked at")]
    Storage {
        /// What the database answered.
        source: Arc<StorageError>,
    },
}

/// How far a stream of changes is.
enum Stage {
    /// Nothing was asked yet: a watch that nobody polls costs nothing.
    Begin(Client),
    /// This was the last change.
    Told(Waiter, Arc<JobStatus>),
    Over,
}

async fn next(job: JobId, stage: Stage) -> Option<(Result<JobStatus, WaitError>, Stage)> {
    let (mut waiter, told) = match stage {
        Stage::Begin(client) => match client.waiter(job) {
            Ok(waiter) => (waiter, None),
            Err(error) => return Some((Err(error), Stage::Over)),
        },
        Stage::Told(waiter, status) => (waiter, Some(status)),
        Stage::Over => return None,
    };
    loop {
        let sight = waiter.sight();
        match ended(job, sight.clone()) {
            Some(Ok(status)) => return Some((Ok(JobStatus::clone(&status)), Stage::Over)),
            Some(Err(error)) => return Some((Err(error), Stage::Over)),
            None => {}
        }
        // An outage and its end are no change of the job.
        let is_news = |status: &Arc<JobStatus>| told.as_ref().is_none_or(|told| !Arc::ptr_eq(told, status));
        if let Some(status) = sight.status.filter(is_news) {
            return Some((Ok(JobStatus::clone(&status)), Stage::Told(waiter, status)));
        }
        waiter.changed().await;
    }
}

/// Whether what is seen ends a wait, and how.
fn ended(job: JobId, sight: Sight) -> Option<Result<Arc<JobStatus>, WaitError>> {
    if let Some(status) = sight.status.filter(|status| status.state.is_terminal()) {
        return Some(Ok(status));
    }
    if sight.gone {
        return Some(Err(WaitError::Gone { job }));
    }
    let error = sight.error.filter(|error| !error.is_transient())?;
    Some(Err(WaitError::Storage { source: error }))
}

/// What a job that has ended gives to the one who waits.
fn output<A: JobArgs>(job: JobId, status: &JobStatus) -> Result<A::Output, WaitError> {
    match status.state {
        JobState::Completed => {
            let text = status.result.as_ref().map_or("null", |result| result.get());
            serde_json::from_str(text).map_err(|source| WaitError::Output { job, source: Arc::new(source) })
        }
        JobState::Cancelled => Err(WaitError::Cancelled { job, reason: status.error.clone() }),
        _ => Err(WaitError::Failed { job, error: status.error.clone().unwrap_or_default() }),
    }
}
