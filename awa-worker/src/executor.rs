//! One attempt: decode, run, and say how it ended.
//!
//! The handler's future is polled to its end and never cut off while the process lives. When its time is over, or its
//! job is taken from it, it is told through its cancellation token and keeps its slot until it returns: a handler that does
//! not listen cannot make the process hold more jobs than it may, and is named in the log. Its panics are values, wherever
//! they come from.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use awa_storage::Lease;
use tokio::select;
use tracing::Instrument as _;

use crate::attempts::{Attempt, CancelReason};
use crate::blocked::Noted;
use crate::context::JobContext;
use crate::engine::Engine;
use crate::error::JobError;
use crate::finalizer::Finished;
use crate::handler::{Call, RawAnswer, shortest};
use crate::kind_limit::{self, KindLimit, Place};
use crate::middleware;
use crate::panics::{self, CatchPanic, Panic};
use crate::registry::Registered;
use crate::slots::Slot;
use crate::taken;
use crate::telemetry::{self, JOB_ATTEMPT, JOB_ID, JOB_KIND, OUTCOME};
use crate::verdict::{Answer, Circumstances, Ending, ending};

/// Runs an attempt to its end and hands its outcome to the finalizer.
pub(crate) async fn execute(engine: Arc<Engine>, attempt: Arc<Attempt>, args: String, slot: Slot) {
    let span = telemetry::attempt_span(&attempt);
    let run = Run { engine, attempt, slot: Arc::new(slot) };
    if span.is_disabled() {
        run.finish_with(args).await;
    } else {
        run.finish_with(args).instrument(span).await;
    }
}

/// An attempt that is running. Dropped without an answer, it gives the job back.
struct Run {
    engine: Arc<Engine>,
    attempt: Arc<Attempt>,
    /// Shared with the settlement: free again when both are done with it.
    slot: Arc<Slot>,
}

type Returned = Result<RawAnswer, Panic>;

impl Run {
    async fn finish_with(self, args: String) {
        let engine = Arc::clone(&self.engine);
        let Some(registered) = engine.registry.get(&self.attempt.facts.kind) else {
            // Claims ask for registered kinds only; giving the job back is right all the same.
            tracing::error!(kind = %self.attempt.facts.kind, "claimed a job without a handler");
            return;
        };
        // Kept until the handler has returned, as the slot is.
        let _place = match &registered.limit {
            Some(limit) => match self.place(limit).await {
                Some(place) => Some(place),
                // Dropping this gives the job back.
                None => return,
            },
            None => None,
        };
        let context = JobContext::new(Arc::clone(&self.attempt), Arc::clone(&self.engine.services));
        let call = self.prepare(registered, &args, context.clone());
        drop(args);
        let timeout = shortest([call.timeout, self.attempt.facts.timeout, self.slot.timeout()]);
        let running = middleware::around(&engine.layers, context, call.running);
        let handler = Noted::new(CatchPanic::new(running), &self.attempt.polled, &self.engine.ticks);
        self.run(handler, registered, timeout).await;
    }

    /// A place among the jobs of the kind; `None` where there is none in time, or no use for it any longer.
    async fn place(&self, limit: &KindLimit) -> Option<Place> {
        select! {
            biased;
            place = limit.place() => Some(place),
            () = tokio::time::sleep(kind_limit::WAIT_MAX) => None,
            () = self.engine.draining.cancelled() => None,
            () = self.attempt.cancellation().cancelled() => None,
        }
    }

    /// The call of the handler. Args that do not fit make one that fails: middleware is to see that as well.
    fn prepare(&self, registered: &Registered, args: &str, context: JobContext) -> Call {
        let handler = Arc::clone(&registered.handler);
        let facts = &self.attempt.facts;
        let prepared = match &facts.unreadable {
            Some(reason) => Err(JobError::retryable(reason.clone())),
            // Whoever made it available: by hand, or by lowering max_attempts while it waited.
            None if facts.attempt > facts.max_attempts => {
                Err(JobError::fatal(format!("all {} attempts are used up", facts.max_attempts)))
            }
            None => panics::catch(AssertUnwindSafe(|| handler.prepare(args, context)))
                .unwrap_or_else(|panic| Err(JobError::retryable(panic.to_string()))),
        };
        prepared.unwrap_or_else(|error| Call { timeout: None, running: Box::pin(std::future::ready(Err(error))) })
    }

    async fn run(
        &self,
        mut handler: impl Future<Output = Returned> + Unpin,
        registered: &Registered,
        timeout: Option<Duration>,
    ) {
        select! {
            biased;
            returned = &mut handler => return self.finish(answer(returned), Some(registered), timeout),
            () = self.attempt.cancellation().cancelled() => {}
            () = elapsed(timeout) => self.attempt.cancel(CancelReason::TimedOut),
            () = self.engine.abandoned.cancelled() => return,
        }
        let asked = Instant::now();
        select! {
            biased;
            returned = &mut handler => return self.finish(answer(returned), Some(registered), timeout),
            () = tokio::time::sleep(self.engine.config.cancel_grace) => {}
            () = self.engine.abandoned.cancelled() => return,
        }
        let reason = self.attempt.cancel_reason();
        tracing::warn!(
            { JOB_ID } = self.attempt.job_id().get(),
            { JOB_KIND } = %self.attempt.facts.kind,
            reason = reason.map(tracing::field::debug),
            asked_for = ?asked.elapsed(),
            "a handler goes on although it was asked to stop: its slot stays taken until it returns"
        );
        if reason == Some(CancelReason::TimedOut) {
            self.finish(Answer::TimedOut, Some(registered), timeout);
        }
        select! {
            biased;
            returned = &mut handler => self.finish(answer(returned), Some(registered), timeout),
            () = self.engine.abandoned.cancelled() => {}
        }
    }

    /// Decides what the answer means and hands it over, if the attempt is still ours to end.
    fn finish(&self, answer: Answer, registered: Option<&Registered>, timeout: Option<Duration>) {
        if let Some(reason) = self.attempt.cancel_reason().filter(|reason| reason.is_gone()) {
            self.engine.attempts.lose(&self.attempt, reason);
        }
        let Some(lease) = self.attempt.take_lease() else { return self.discard(answer) };
        let circumstances = Circumstances {
            reason: self.attempt.cancel_reason(),
            timeout,
            retry_policy: registered.and_then(|registered| registered.retry_policy.as_ref()),
            attempt: self.attempt.facts.attempt,
            jitter: crate::jitter::fraction(),
        };
        // The error is dropped in there, and its Drop is user code too.
        let ending = panics::catch(AssertUnwindSafe(|| ending(answer, &circumstances)));
        let ending = ending.unwrap_or_else(|panic| Ending::of_panic(&panic));
        self.log(&ending);
        self.hand_over(lease, ending);
    }

    fn log(&self, ending: &Ending) {
        let (id, kind) = (self.attempt.job_id().get(), &self.attempt.facts.kind);
        let attempt = self.attempt.facts.attempt;
        let outcome = ending.name(attempt >= self.attempt.facts.max_attempts);
        match ending.error() {
            Some(error) => tracing::warn!(
                { JOB_ID } = id,
                { JOB_KIND } = %kind,
                { JOB_ATTEMPT } = attempt,
                { OUTCOME } = outcome,
                error,
                "an attempt failed"
            ),
            None => tracing::debug!(
                { JOB_ID } = id,
                { JOB_KIND } = %kind,
                { JOB_ATTEMPT } = attempt,
                { OUTCOME } = outcome,
                "an attempt ended"
            ),
        }
    }

    fn hand_over(&self, lease: Lease, ending: Ending) {
        let slot = Some(Arc::clone(&self.slot));
        self.engine.finish(Finished::new(&self.engine, Arc::clone(&self.attempt), lease, ending, slot));
    }

    /// The attempt was ended without its handler: what the handler says now has no effect.
    fn discard(&self, answer: Answer) {
        taken::discarded(&self.attempt);
        panics::drop_quietly(answer);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(lease) = self.attempt.take_lease() {
            self.hand_over(lease, Ending::given_back());
        }
    }
}

fn answer(returned: Returned) -> Answer {
    match returned {
        Ok(result) => Answer::Returned(result),
        Err(panic) => Answer::Panicked(panic),
    }
}

async fn elapsed(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}
