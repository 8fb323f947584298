//! Running one handler without a database.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use awa_model::{CallbackId, Due, IntoNewJob, JobArgs, JobId, Outcome, Progress, RetryPolicy, RunLease, WorkerId};
use awa_storage::Claimed;
use awa_storage::session::Sessions;
use awa_storage::settle::{Settlement, Verdict};
use awa_storage::testing::pretended_lease;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::drain::begin;
use super::faults::Faults;
use super::stores::{MemoryStore, Requests};
use crate::attempts::CancelReason;
use crate::bounded::Patience;
use crate::client::{Client, ClientBuilder};
use crate::config::QueueConfig;
use crate::context::JobContext;
use crate::error::JobError;
use crate::finalizer::Unwritten;
use crate::handler::{Handler, Requirement};
use crate::{panics, runtime};

/// Runs a handler once, as a worker would, without a database: `testing::run(resize, &job).attempt(3).await`.
///
/// `job` is what [`enqueue`](crate::enqueue) takes: args, or a [`NewJob`](crate::NewJob) with tags, metadata, a timeout. What
/// the handler stores is kept in memory and reported.
pub fn run<H, Marker, J>(handler: H, job: J) -> TestRun<<J as IntoNewJob>::Args>
where
    H: Handler<Marker, Args = J::Args>,
    Marker: 'static,
    J: IntoNewJob,
{
    let job = job.into_new_job().prepare();
    let nowhere = PgPoolOptions::new().connect_lazy_with(PgConnectOptions::new_without_pgpass());
    let job = job.unwrap_or_else(|invalid| panic!("no job could be like this: {invalid}"));
    let stop = Stop::default();
    let builder = Client::builder(nowhere)
        .queue(job.queue.to_string(), QueueConfig::new())
        .cancel_grace(Duration::from_millis(100))
        .register(Interruptible { handler, stop: Arc::clone(&stop), marker: PhantomData });
    TestRun { builder, job, first: First::default(), stop, faults: Faults::new(), output: PhantomData }
}

/// A handler that is about to run once; see [`run`]. Awaiting it runs it.
#[must_use = "nothing runs before it is awaited"]
pub struct TestRun<A> {
    builder: ClientBuilder,
    job: awa_model::PreparedJob,
    first: First,
    stop: Stop,
    faults: Faults,
    output: PhantomData<fn() -> A>,
}

/// What earlier attempts have left.
#[derive(Debug)]
struct First {
    attempt: i16,
    snoozes: i32,
    progress: Option<Progress>,
    payload: Option<String>,
}

impl Default for First {
    fn default() -> Self {
        Self { attempt: 1, snoozes: 0, progress: None, payload: None }
    }
}

impl<A: JobArgs> TestRun<A> {
    /// Gives the handler a value, which it takes as [`Data<T>`](crate::Data).
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.builder = self.builder.data(value);
        self
    }

    /// Changes what the client of this run is built from: `.with(|builder| builder.progress_bytes_max(4096))`.
    pub fn with(mut self, change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// Makes it the n-th attempt, from 1.
    pub fn attempt(mut self, attempt: i16) -> Self {
        self.first.attempt = attempt;
        self
    }

    /// Lets the job have been snoozed so often.
    pub fn snoozes(mut self, snoozes: i32) -> Self {
        self.first.snoozes = snoozes;
        self
    }

    /// Gives it the progress that an earlier attempt has left.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.first.progress = Some(progress);
        self
    }

    /// Lets the job have been resumed with this payload, which the handler gets from
    /// [`JobContext::callback_payload`](crate::JobContext::callback_payload).
    ///
    /// # Panics
    /// If no answer could bring it.
    pub fn callback_payload<T: serde::Serialize + ?Sized>(mut self, payload: &T) -> Self {
        let text = awa_model::json_text("the payload", payload, awa_model::limits::PAYLOAD_BYTES_MAX);
        self.first.payload = Some(text.unwrap_or_else(|invalid| panic!("no payload could be like this: {invalid}")));
        self
    }

    /// Asks the handler to stop when it waits for the n-th time: 0 is before it begins, 1 at the first `await` that has to
    /// wait. A handler that does not wait so often is not asked.
    pub fn cancel_at_wait(self, n: usize, reason: CancelReason) -> Self {
        // The first stays: a handler is asked to stop once.
        let _ = self.stop.set((n, reason));
        self
    }

    /// Lets something go wrong; this is attempt 1 of the count.
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    async fn run(self) -> Ran<A::Output> {
        let Self { builder, job, first, faults, .. } = self;
        panics::install_hook();
        let client = builder.build().unwrap_or_else(|error| panic!("{error}"));
        let lost = faults.lose_lease == Some(1);
        let (requests, payload) = (Requests::new(faults.fail_request), first.payload.clone());
        let store = Arc::new(MemoryStore { requests, stored: Mutex::default(), payload, lost });
        let (pool, worker) = (client.pool().clone(), WorkerId::random());
        let sessions = Sessions::unknown(pool.connect_options().as_ref().clone());
        let (engine, mut inbox) =
            runtime::engine(client.shared(), pool, sessions, worker, Patience::default(), Arc::clone(&store) as Arc<_>);
        // However this ends, and where it is dropped: the handler does not go on without it.
        let handlers = engine.abandoned.clone().drop_guard();
        let max_attempts = job.max_attempts;
        let claimed = pretend_claimed(job, first);
        let (attempt, seed) = (claimed.attempt, claimed.progress.clone());
        let mut running = begin(&engine, claimed, lost).expect("the queue has a slot");
        let held = engine.attempts.all().pop();
        let finished = tokio::select! {
            Some(finished) = inbox.recv() => Some(finished),
            _ = &mut running => inbox.try_recv().ok(),
        };
        drop(handlers);
        let reported = held.as_ref().and_then(|attempt| attempt.reported()).map(|buffer| buffer.latest());
        let seed = || seed.map(Progress::from_json).unwrap_or_default();
        Ran {
            progress: reported.unwrap_or_else(seed),
            stored: store.stored(),
            ended: match finished.map(crate::finalizer::Finished::unwritten) {
                None => Ended::Discarded,
                Some(unwritten) => ended(unwritten, attempt >= max_attempts),
            },
        }
    }
}

impl<A: JobArgs> IntoFuture for TestRun<A> {
    type Output = Ran<A::Output>;
    type IntoFuture = Pin<Box<dyn Future<Output = Ran<A::Output>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl<A> std::fmt::Debug for TestRun<A> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TestRun").field("kind", &self.job.kind).finish_non_exhaustive()
    }
}

/// What one attempt has come to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ran<T> {
    /// How it ended.
    pub ended: Ended<T>,
    /// The progress at its end, whether or not the handler has stored it.
    pub progress: Progress,
    /// What the handler has stored itself, in order: every `flush`.
    pub stored: Vec<Progress>,
}

/// How an attempt ended, and what its job would be now.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ended<T> {
    /// The job is completed.
    Completed(T),
    /// The job is tried again.
    Retryable {
        /// After this long; by the usual back-off if `None`.
        after: Option<Duration>,
        /// What went wrong.
        error: String,
    },
    /// The job has failed: the error was fatal, or this was the last attempt.
    Failed {
        /// What went wrong.
        error: String,
    },
    /// The job runs again later, and this attempt does not count.
    Snoozed {
        /// How much later.
        after: Duration,
    },
    /// The handler has called the job off.
    Cancelled {
        /// Why.
        reason: String,
    },
    /// The handler says that it has completed the job in its own transaction. A worker would look whether that is so.
    Committed,
    /// The job waits for a callback.
    Waiting {
        /// The one that the handler has returned.
        callback: CallbackId,
    },
    /// The job goes back to its queue, and this attempt does not count: the process was shutting down.
    Released,
    /// Nothing: the lease was lost, so what the handler returned has no effect.
    Discarded,
}

impl<T> Ran<T> {
    /// What the job produced, if it has completed.
    #[must_use]
    pub fn output(&self) -> Option<&T> {
        match &self.ended {
            Ended::Completed(output) => Some(output),
            _ => None,
        }
    }

    /// What went wrong, if something did: panics, with their place, and timeouts included.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        match &self.ended {
            Ended::Retryable { error, .. } | Ended::Failed { error } => Some(error),
            _ => None,
        }
    }
}

/// The id of a job that no database has.
const PRETENDED: JobId = JobId::new(1);

#[allow(clippy::disallowed_methods, reason = "there is no database whose clock could decide")]
fn pretend_claimed(job: awa_model::PreparedJob, first: First) -> Claimed {
    let now: DateTime<Utc> = Utc::now();
    let timeout = job.timeout.and_then(|timeout| TimeDelta::from_std(timeout).ok());
    Claimed {
        lease: pretended_lease(PRETENDED, RunLease::new(i64::from(first.attempt))),
        kind: job.kind,
        queue: job.queue,
        priority: job.priority,
        attempt: first.attempt,
        max_attempts: job.max_attempts,
        snoozes: first.snoozes,
        args: job.args,
        metadata: job.metadata,
        tags: job.tags,
        trace_context: job.trace_context,
        progress: first.progress.and_then(|progress| serde_json::from_str(&progress.to_json()).ok()),
        created_at: now,
        run_at: if let Due::At(time) = job.due { time } else { now },
        attempted_at: now,
        deadline_at: timeout.and_then(|timeout| now.checked_add_signed(timeout)),
        timeout: job.timeout,
        unreadable: None,
    }
}

fn ended<T: serde::de::DeserializeOwned>(unwritten: Unwritten, last_attempt: bool) -> Ended<T> {
    let Settlement { verdict, .. } = match unwritten {
        Unwritten::Completed(completion) => {
            let text = completion.result.as_deref().unwrap_or("null");
            let output = serde_json::from_str(text);
            return Ended::Completed(output.unwrap_or_else(|error| panic!("the output does not read back: {error}")));
        }
        Unwritten::Settled(settlement) => settlement,
    };
    match verdict {
        Verdict::Retry { error, .. } if last_attempt => Ended::Failed { error },
        Verdict::Retry { after, error } => Ended::Retryable { after, error },
        Verdict::Fail { error } => Ended::Failed { error },
        Verdict::Snooze { after } => Ended::Snoozed { after },
        Verdict::Cancel { reason } => Ended::Cancelled { reason },
        Verdict::Committed { .. } => Ended::Committed,
        Verdict::Park { callback } => Ended::Waiting { callback },
        _ => Ended::Released,
    }
}

/// When a handler is asked to stop: at which of its waits, and why.
type Stop = Arc<OnceLock<(usize, CancelReason)>>;

/// The handler of a run, which can be asked to stop.
struct Interruptible<H, Marker> {
    handler: H,
    stop: Stop,
    marker: PhantomData<fn() -> Marker>,
}

/// Marks the implementation of [`Handler`] for [`Interruptible`].
struct ViaTestRun<Marker>(PhantomData<Marker>);

impl<Marker: 'static, H: Handler<Marker>> Handler<ViaTestRun<Marker>> for Interruptible<H, Marker> {
    type Args = H::Args;

    fn requires() -> Vec<Requirement> {
        H::requires()
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.handler.retry_policy()
    }

    fn timeout(&self, args: &H::Args) -> Option<Duration> {
        self.handler.timeout(args)
    }

    fn chosen_timeout(&self) -> Option<Duration> {
        self.handler.chosen_timeout()
    }

    fn max_workers(&self) -> Option<usize> {
        self.handler.max_workers()
    }

    async fn call(
        &self,
        args: H::Args,
        context: JobContext,
    ) -> Result<Outcome<<H::Args as JobArgs>::Output>, JobError> {
        let attempt = Arc::clone(context.running());
        let running = self.handler.call(args, context);
        match self.stop.get() {
            None => running.await,
            Some((at, reason)) => interrupted(Box::pin(running), *at, move || attempt.cancel(*reason)).await,
        }
    }
}

fn interrupted<'a, T: Send + 'a>(
    mut inner: BoxFuture<'a, T>,
    at: usize,
    stop: impl Fn() + Send + 'a,
) -> BoxFuture<'a, T> {
    let mut waits = 0_usize;
    if at == 0 {
        stop();
    }
    Box::pin(std::future::poll_fn(move |context| {
        let polled = inner.as_mut().poll(context);
        if polled.is_pending() {
            waits += 1;
            if waits == at {
                stop();
            }
        }
        polled
    }))
}
