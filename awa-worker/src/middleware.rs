//! What stands around the running of jobs, and around what a client enqueues.
//!
//! A middleware is asked with the rest of the way in its hand: [`Next`] or [`NextEnqueue`]. It may look and change before it
//! goes on, judge the answer afterwards, or answer itself. The way can be gone once at most, since going consumes it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_trait::async_trait;
use awa_model::{Due, Inserted, InvalidJob, Kind, Outcome, PreparedJob, Priority, QueueName, json_text};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

use crate::config::RESULT_BYTES_MAX;
use crate::context::JobContext;
use crate::error::JobError;
use crate::failure::Error;
use crate::handler::RawAnswer;
use crate::panics::CatchPanic;

/// Something around every attempt that a worker runs, and around every enqueue through a [`Client`](crate::Client).
///
/// Given to the builder with [`middleware`](crate::ClientBuilder::middleware); of several, the first is the outermost. Both
/// methods go straight on unless they are written. Write the implementation under [`async_trait`](crate::async_trait):
///
/// ```
/// use awa_worker::{Enqueued, Error, Executed, JobContext, Middleware, Next, NextEnqueue, async_trait};
///
/// struct Timing;
///
/// #[async_trait]
/// impl Middleware for Timing {
///     async fn execute(&self, job: JobContext, next: Next) -> Executed {
///         let started = std::time::Instant::now();
///         let answer = next.run().await;
///         println!("{} took {:?}, went well: {}", job.kind(), started.elapsed(), answer.is_ok());
///         answer
///     }
///
///     async fn enqueue(&self, mut next: NextEnqueue<'_>) -> Result<Enqueued, Error> {
///         for job in next.jobs_mut() {
///             job.set_metadata(serde_json::json!({ "by": "the web shop" }))?;
///         }
///         next.run().await
///     }
/// }
/// ```
///
/// A panic in `execute` fails the attempt and nothing else. A panic in `enqueue` is the caller's, as in any function.
#[async_trait]
pub trait Middleware: Send + Sync + 'static {
    /// Runs one attempt: by `next.run()`, or by an answer of its own.
    ///
    /// What it answers is what the attempt ends with. An error of the handler has been through its own rules by then
    /// (`fatal_if`); an attempt that panicked, or whose args cannot be read, arrives as an error. The timeout of the attempt
    /// and its cancellation cover the middleware too. Code after `next.run()` does not run when the process dies or gives the
    /// attempt up, so nothing may depend on it.
    async fn execute(&self, _job: JobContext, next: Next) -> Executed {
        next.run().await
    }

    /// Enqueues jobs: by `next.run()`, or not at all, with an error ([`Error::refused`] for one of its own).
    ///
    /// Free functions such as [`enqueue`](crate::enqueue()) run no middleware, and neither do other languages. An error after
    /// `next.run()` does not take the jobs back, unless the caller rolls back the transaction they are in.
    async fn enqueue(&self, next: NextEnqueue<'_>) -> Result<Enqueued, Error> {
        next.run().await
    }
}

/// All middleware of a client, the outermost first.
pub(crate) type Layers = Arc<[Arc<dyn Middleware>]>;

/// How an attempt ended, as middleware sees it: the output is JSON, whatever type the handler returned.
pub type Executed = Result<Outcome<JobOutput>, JobError>;

/// What a job produced, as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput(Option<String>);

impl JobOutput {
    /// Nothing, as from a handler that returns `()`.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// This value. Whoever waits for the job reads it as the output of its args, so it should be one.
    ///
    /// # Errors
    /// When it does not encode, holds what the database cannot store, or is too large.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, JobError> {
        json_text("the result", value, RESULT_BYTES_MAX).map(|text| Self(Some(text))).map_err(JobError::retryable)
    }

    /// The JSON text, if the job produced anything.
    #[must_use]
    pub fn as_json(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// The rest of the way to the handler.
#[must_use = "the handler does not run unless this does"]
pub struct Next {
    layers: Layers,
    /// The place of the next one to be asked.
    at: usize,
    context: JobContext,
    handler: BoxFuture<'static, RawAnswer>,
}

impl Next {
    /// Runs it: the middleware after this one, and at last the handler.
    ///
    /// Dropping the future drops the handler at its next await.
    pub fn run(mut self) -> BoxFuture<'static, Executed> {
        let Some(layer) = self.layers.get(self.at).cloned() else {
            return Box::pin(Handler(CatchPanic::new(self.handler)));
        };
        self.at += 1;
        Box::pin(async move { layer.execute(self.context.clone(), self).await })
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Next").field("job", &self.context).finish_non_exhaustive()
    }
}

/// The handler at the end of the way. Its panics are errors from here on, so that middleware sees all failures alike.
struct Handler(CatchPanic<'static, RawAnswer>);

impl Future for Handler {
    type Output = Executed;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Executed> {
        Pin::new(&mut self.0).poll(context).map(|answer| match answer {
            Ok(answer) => answer.map(|outcome| outcome.map(JobOutput)),
            Err(panic) => Err(JobError::retryable(panic.to_string())),
        })
    }
}

/// Puts all middleware around a call. Costs nothing where there is none.
pub(crate) fn around(
    layers: &Layers,
    context: JobContext,
    handler: BoxFuture<'static, RawAnswer>,
) -> BoxFuture<'static, RawAnswer> {
    if layers.is_empty() {
        return handler;
    }
    let next = Next { layers: Arc::clone(layers), at: 0, context, handler };
    Box::pin(async move { next.run().await.map(|outcome| outcome.map(|output| output.0)) })
}

/// A job that is about to be enqueued, as middleware sees it. What may be changed is what describes it; what it does and
/// when is its producer's affair.
#[derive(Debug)]
pub struct JobDraft(PreparedJob);

impl JobDraft {
    /// What it is.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.0.kind
    }

    /// Where it will queue.
    #[must_use]
    pub fn queue(&self) -> &QueueName {
        &self.0.queue
    }

    /// How urgent it will be there.
    #[must_use]
    pub fn priority(&self) -> Priority {
        self.0.priority
    }

    /// When it may run.
    #[must_use]
    pub fn due(&self) -> Due {
        self.0.due
    }

    /// Its args, as JSON.
    #[must_use]
    pub fn args_json(&self) -> &str {
        &self.0.args
    }

    /// Its tags.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.0.tags
    }

    /// Its metadata.
    #[must_use]
    pub fn metadata(&self) -> Option<&Value> {
        self.0.metadata.as_ref()
    }

    /// The trace it belongs to.
    #[must_use]
    pub fn trace_context(&self) -> Option<&str> {
        self.0.trace_context.as_deref()
    }

    /// Replaces its tags.
    ///
    /// # Errors
    /// When they break a limit of [`NewJob::tag`](crate::NewJob::tag); nothing is changed then.
    pub fn set_tags(&mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Result<(), InvalidJob> {
        self.0.set_tags(tags.into_iter().map(Into::into).collect())
    }

    /// Replaces its metadata.
    ///
    /// # Errors
    /// When it breaks a limit of [`NewJob::metadata`](crate::NewJob::metadata); nothing is changed then.
    pub fn set_metadata(&mut self, metadata: impl Into<Value>) -> Result<(), InvalidJob> {
        self.0.set_metadata(Some(metadata.into()))
    }

    /// Replaces the trace it belongs to.
    ///
    /// # Errors
    /// When it breaks a limit of [`NewJob::trace_context`](crate::NewJob::trace_context); nothing is changed then.
    pub fn set_trace_context(&mut self, context: impl Into<String>) -> Result<(), InvalidJob> {
        self.0.set_trace_context(Some(context.into()))
    }
}

/// Writes jobs at the end of the way.
pub(crate) type Write<'a> =
    Box<dyn FnOnce(Vec<PreparedJob>) -> BoxFuture<'a, Result<Vec<Inserted>, Error>> + Send + 'a>;

/// The rest of the way into the database, with the jobs that go it: one, or all of one call.
#[must_use = "nothing is enqueued unless this runs"]
pub struct NextEnqueue<'a> {
    layers: Layers,
    /// The place of the next one to be asked.
    at: usize,
    jobs: Vec<JobDraft>,
    write: Write<'a>,
}

impl<'a> NextEnqueue<'a> {
    /// The jobs, in the order given. At least one, but for a COPY of none.
    #[must_use]
    pub fn jobs(&self) -> &[JobDraft] {
        &self.jobs
    }

    /// The jobs, to be changed.
    pub fn jobs_mut(&mut self) -> &mut [JobDraft] {
        &mut self.jobs
    }

    /// Enqueues them: through the middleware after this one, and at last into the database.
    ///
    /// # Errors
    /// What a later middleware or the database answers.
    pub fn run(mut self) -> BoxFuture<'a, Result<Enqueued, Error>> {
        let Some(layer) = self.layers.get(self.at).cloned() else {
            let jobs = self.jobs.into_iter().map(|job| job.0).collect();
            let writing = (self.write)(jobs);
            return Box::pin(async move { writing.await.map(Enqueued) });
        };
        self.at += 1;
        Box::pin(async move { layer.enqueue(self).await })
    }
}

impl std::fmt::Debug for NextEnqueue<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NextEnqueue").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

/// What became of the jobs of an enqueue. Only the database makes one.
#[derive(Debug)]
pub struct Enqueued(Vec<Inserted>);

impl Enqueued {
    /// One answer for each job, in the order given.
    pub fn jobs(&self) -> &[Inserted] {
        &self.0
    }
}

/// Enqueues through all middleware.
pub(crate) async fn enqueue(layers: &Layers, jobs: Vec<PreparedJob>, write: Write<'_>) -> Result<Vec<Inserted>, Error> {
    let jobs = jobs.into_iter().map(JobDraft).collect();
    let next = NextEnqueue { layers: Arc::clone(layers), at: 0, jobs, write };
    next.run().await.map(|enqueued| enqueued.0)
}
