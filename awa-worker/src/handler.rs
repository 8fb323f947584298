//! What may handle a job, and how its type is forgotten.
//!
//! A handler is an `async fn`, a closure or a [`Worker`]. It takes its args first and up to three things drawn from the
//! [`JobContext`] after them; the args say which kind it handles. The registry keeps handlers of all types side by side,
//! so behind it they look alike: JSON in, JSON out ([`ErasedHandler`]).

use std::any::{TypeId, type_name};
use std::future::Future;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use awa_model::{IntoOutcome, InvalidJson, JobArgs, Outcome, RetryPolicy, json_text};
use futures_util::future::BoxFuture;

use crate::config::RESULT_BYTES_MAX;
use crate::context::JobContext;
use crate::error::JobError;

/// Handles the jobs of one kind.
///
/// Implemented for `async fn(Args, …) -> Result<R, E>` with up to three extractors ([`JobContext`], [`Data`], your own
/// [`FromContext`]) after the args, where `R` is the output of the args or an [`Outcome`] of it and `E` any error; and
/// for every [`Worker`]. `Marker` only keeps these implementations apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job handler",
    note = "a handler is `async fn(Args, …) -> Result<R, E>`: `Args: JobArgs`, then up to three extractors (`JobContext`, `Data<T>`), `R` the output of the args or an `Outcome`, `E` any error",
    note = "`#[awa_worker::debug_handler]` on the function says which part of it is wrong"
)]
pub trait Handler<Marker>: Send + Sync + 'static {
    /// The args, which name the kind.
    type Args: JobArgs;

    /// What must be given to the builder for this handler to run.
    fn requires() -> Vec<Requirement> {
        Vec::new()
    }

    /// How long to wait before another attempt; `None` leaves it to the database's usual back-off.
    fn retry_policy(&self) -> Option<RetryPolicy> {
        None
    }

    /// The time that one attempt with these args may take; `None` leaves it to the job.
    fn timeout(&self, _args: &Self::Args) -> Option<Duration> {
        None
    }

    /// The timeout chosen at registration, whatever the args are. It is part of what [`timeout`](Self::timeout) answers, and is
    /// here to be judged when the client is built.
    fn chosen_timeout(&self) -> Option<Duration> {
        None
    }

    /// How many attempts of this kind may run at once in this process; `None` leaves it to the queues.
    fn max_workers(&self) -> Option<usize> {
        None
    }

    /// Runs one attempt.
    fn call(
        &self,
        args: Self::Args,
        context: JobContext,
    ) -> impl Future<Output = Result<Outcome<<Self::Args as JobArgs>::Output>, JobError>> + Send;
}

/// A handler written as a type, for kinds that bring their own timeout, back-off or limit.
pub trait Worker: Send + Sync + 'static {
    /// The args, which name the kind.
    type Args: JobArgs;

    /// How long to wait before another attempt; `None` leaves it to the database's usual back-off.
    fn retry_policy(&self) -> Option<RetryPolicy> {
        None
    }

    /// The time that one attempt with these args may take, counted by this process; `None` leaves it to the job and its
    /// queue. The shortest of them counts.
    fn timeout(&self, _args: &Self::Args) -> Option<Duration> {
        None
    }

    /// How many attempts of this kind, its aliases included, may run at once in this process, over all queues; asked once,
    /// when the handler is registered. `None` leaves it to the queues.
    ///
    /// A job beyond the limit waits for at most a second, in the slot of its queue. Then it goes back, without having spent
    /// an attempt, and joins the end of the line: **order is not kept**, and many jobs beyond the limit keep the worker and
    /// the database busy for nothing. A queue of its own with [`QueueConfig::max_workers`](crate::QueueConfig::max_workers)
    /// is better for most kinds; a limit is for kinds that have to share a queue.
    fn max_workers(&self) -> Option<usize> {
        None
    }

    /// Runs one attempt.
    fn run(
        &self,
        args: Self::Args,
        context: JobContext,
    ) -> impl Future<Output = Result<Outcome<<Self::Args as JobArgs>::Output>, JobError>> + Send;
}

/// Marks the implementation of [`Handler`] for [`Worker`] types.
#[derive(Debug)]
pub struct ViaWorker;

impl<W: Worker> Handler<ViaWorker> for W {
    type Args = W::Args;

    fn retry_policy(&self) -> Option<RetryPolicy> {
        Worker::retry_policy(self)
    }

    fn timeout(&self, args: &W::Args) -> Option<Duration> {
        Worker::timeout(self, args)
    }

    fn max_workers(&self) -> Option<usize> {
        Worker::max_workers(self)
    }

    async fn call(
        &self,
        args: W::Args,
        context: JobContext,
    ) -> Result<Outcome<<W::Args as JobArgs>::Output>, JobError> {
        self.run(args, context).await
    }
}

macro_rules! handler_of {
    ($($extractor:ident),*) => {
        impl<F, Running, Args, R, E, $($extractor),*> Handler<(Args, R, E, $($extractor,)*)> for F
        where
            F: Fn(Args, $($extractor),*) -> Running + Send + Sync + 'static,
            Running: Future<Output = Result<R, E>> + Send,
            Args: JobArgs,
            R: IntoOutcome<Args::Output>,
            E: Into<JobError>,
            $($extractor: FromContext,)*
        {
            type Args = Args;

            fn requires() -> Vec<Requirement> {
                let all: &[Vec<Requirement>] = &[$($extractor::requires()),*];
                all.concat()
            }

            #[allow(non_snake_case, reason = "the extractors' types name their values")]
            async fn call(&self, args: Args, context: JobContext) -> Result<Outcome<Args::Output>, JobError> {
                $(let $extractor = $extractor::from_context(&context)?;)*
                drop(context);
                self(args, $($extractor),*).await.map(IntoOutcome::into_outcome).map_err(Into::into)
            }
        }
    };
}

handler_of!();
handler_of!(First);
handler_of!(First, Second);
handler_of!(First, Second, Third);

/// Something a handler may take after its args.
#[diagnostic::on_unimplemented(
    message = "a handler cannot take `{Self}` after its args",
    label = "not `FromContext`",
    note = "it takes `JobContext`, `Data<T>`, `Option<Data<T>>`, or a type that implements `FromContext`"
)]
pub trait FromContext: Sized + Send {
    /// What must be given to the builder, so that a gap is found when the client is built and not by the first job.
    fn requires() -> Vec<Requirement> {
        Vec::new()
    }

    /// Draws the value.
    ///
    /// # Errors
    /// Fails the attempt.
    fn from_context(context: &JobContext) -> Result<Self, JobError>;
}

impl FromContext for JobContext {
    fn from_context(context: &JobContext) -> Result<Self, JobError> {
        Ok(context.clone())
    }
}

/// A value given to the builder with `data`, shared by all handlers.
#[derive(Debug)]
pub struct Data<T>(Arc<T>);

impl<T> Data<T> {
    /// The shared value, to be kept beyond the attempt.
    #[must_use]
    pub fn into_inner(self) -> Arc<T> {
        self.0
    }
}

impl<T> Clone for Data<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Data<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> FromContext for Data<T> {
    fn requires() -> Vec<Requirement> {
        vec![Requirement::data::<T>()]
    }

    fn from_context(context: &JobContext) -> Result<Self, JobError> {
        match context.data::<T>() {
            Some(value) => Ok(Self(value)),
            None => Err(JobError::retryable(format!("no Data<{}> was given to this client", type_name::<T>()))),
        }
    }
}

/// For handlers that can do without: `None` where no such value was given to the builder, which then is no mistake.
impl<T: Send + Sync + 'static> FromContext for Option<Data<T>> {
    fn from_context(context: &JobContext) -> Result<Self, JobError> {
        Ok(context.data::<T>().map(Data))
    }
}

/// Something that a handler cannot do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requirement {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

impl Requirement {
    /// A value given to the builder with `data`.
    #[must_use]
    pub fn data<T: Send + Sync + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// A handler together with options chosen at registration; made by [`HandlerExt`].
pub struct Registration<H, Marker> {
    handler: H,
    retry_policy: Option<RetryPolicy>,
    timeout: Option<Duration>,
    max_workers: Option<usize>,
    is_fatal: Vec<Classifier>,
    marker: PhantomData<fn() -> Marker>,
}

type Classifier = Box<dyn Fn(&JobError) -> bool + Send + Sync>;

/// Options for a handler, given where it is registered.
pub trait HandlerExt<Marker>: Handler<Marker> + Sized {
    /// Makes errors of type `E` that `is_fatal` picks end the job. May be given several times.
    fn fatal_if<E: std::error::Error + 'static>(
        self,
        is_fatal: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Registration<Self, Marker> {
        Registration::of(self).fatal_if(is_fatal)
    }

    /// Chooses how long to wait before another attempt.
    fn with_retry(self, policy: RetryPolicy) -> Registration<Self, Marker> {
        Registration::of(self).with_retry(policy)
    }

    /// Limits how long one attempt may take, counted by this process: 1 ms to ten years. The shortest limit of handler, job
    /// and queue counts.
    fn timeout(self, timeout: Duration) -> Registration<Self, Marker> {
        Registration::of(self).timeout(timeout)
    }

    /// Limits how many attempts of this kind run at once in this process; see [`Worker::max_workers`] for what that costs.
    fn max_workers(self, max_workers: usize) -> Registration<Self, Marker> {
        Registration::of(self).max_workers(max_workers)
    }
}

impl<Marker, H: Handler<Marker>> HandlerExt<Marker> for H {}

impl<H, Marker> Registration<H, Marker> {
    fn of(handler: H) -> Self {
        Self {
            handler,
            retry_policy: None,
            timeout: None,
            max_workers: None,
            is_fatal: Vec::new(),
            marker: PhantomData,
        }
    }

    /// Makes errors of type `E` that `is_fatal` picks end the job. May be given several times.
    #[must_use]
    pub fn fatal_if<E: std::error::Error + 'static>(
        mut self,
        is_fatal: impl Fn(&E) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_fatal.push(Box::new(move |error| error.downcast_ref::<E>().is_some_and(&is_fatal)));
        self
    }

    /// Chooses how long to wait before another attempt.
    #[must_use]
    pub fn with_retry(mut self, policy: RetryPolicy) -> Self {
        self.retry_policy = Some(policy);
        self
    }

    /// Limits how long one attempt may take, counted by this process: 1 ms to ten years. The shortest limit of handler, job
    /// and queue counts.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Limits how many attempts of this kind run at once in this process; see [`Worker::max_workers`] for what that costs.
    #[must_use]
    pub fn max_workers(mut self, max_workers: usize) -> Self {
        self.max_workers = Some(max_workers);
        self
    }
}

impl<H: std::fmt::Debug, Marker> std::fmt::Debug for Registration<H, Marker> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registration").field("handler", &self.handler).finish_non_exhaustive()
    }
}

/// Marks the implementation of [`Handler`] for [`Registration`].
#[derive(Debug)]
pub struct ViaRegistration<Marker>(PhantomData<Marker>);

impl<Marker: 'static, H: Handler<Marker>> Handler<ViaRegistration<Marker>> for Registration<H, Marker> {
    type Args = H::Args;

    fn requires() -> Vec<Requirement> {
        H::requires()
    }

    fn retry_policy(&self) -> Option<RetryPolicy> {
        self.retry_policy.clone().or_else(|| self.handler.retry_policy())
    }

    fn timeout(&self, args: &H::Args) -> Option<Duration> {
        shortest([self.timeout, Handler::timeout(&self.handler, args)])
    }

    fn chosen_timeout(&self) -> Option<Duration> {
        shortest([self.timeout, self.handler.chosen_timeout()])
    }

    fn max_workers(&self) -> Option<usize> {
        self.max_workers.or_else(|| Handler::max_workers(&self.handler))
    }

    async fn call(
        &self,
        args: H::Args,
        context: JobContext,
    ) -> Result<Outcome<<H::Args as JobArgs>::Output>, JobError> {
        self.handler.call(args, context).await.map_err(|error| {
            let fatal = self.is_fatal.iter().any(|is_fatal| is_fatal(&error));
            if fatal { error.into_fatal() } else { error }
        })
    }
}

/// The result of an attempt as the database takes it: JSON text, or nothing where the output is `()`.
pub(crate) type RawOutcome = Outcome<Option<String>>;

/// What an attempt answers while its type is forgotten.
pub(crate) type RawAnswer = Result<RawOutcome, JobError>;

/// An attempt that is about to run.
pub(crate) struct Call {
    pub(crate) timeout: Option<Duration>,
    pub(crate) running: BoxFuture<'static, RawAnswer>,
}

/// The shortest of several limits.
pub(crate) fn shortest<const N: usize>(limits: [Option<Duration>; N]) -> Option<Duration> {
    limits.into_iter().flatten().min()
}

/// A handler whose args are still JSON.
pub(crate) trait ErasedHandler: Send + Sync {
    /// Decodes the args, once, and prepares the call. Args that do not fit fail the attempt like any other error.
    fn prepare(self: Arc<Self>, args: &str, context: JobContext) -> Result<Call, JobError>;
}

/// [`ErasedHandler`] for a handler of any type.
pub(crate) struct Erased<H, Marker>(H, PhantomData<fn() -> Marker>);

impl<H, Marker> Erased<H, Marker> {
    pub(crate) fn new(handler: H) -> Self {
        Self(handler, PhantomData)
    }
}

impl<Marker: 'static, H: Handler<Marker>> ErasedHandler for Erased<H, Marker> {
    fn prepare(self: Arc<Self>, args: &str, context: JobContext) -> Result<Call, JobError> {
        let args: H::Args = serde_json::from_str(args).map_err(|error| {
            JobError::retryable(format!("the args do not fit `{}`: {error}", type_name::<H::Args>()))
        })?;
        let timeout = Handler::timeout(&self.0, &args);
        let running = Box::pin(async move { self.0.call(args, context).await.and_then(encode) });
        Ok(Call { timeout, running })
    }
}

/// Turns the output into JSON that `jsonb` can hold.
fn encode<T: serde::Serialize + 'static>(outcome: Outcome<T>) -> RawAnswer {
    Ok(match outcome {
        Outcome::Complete(output) => Outcome::Complete(result_text(&output).map_err(JobError::retryable)?),
        Outcome::Snooze(delay) => Outcome::Snooze(delay),
        Outcome::Cancel(reason) => Outcome::Cancel(reason),
        Outcome::Committed => Outcome::Committed,
        Outcome::WaitFor(callback) => Outcome::WaitFor(callback),
    })
}

/// The output as the database takes it; nothing where it is `()`.
pub(crate) fn result_text<T: serde::Serialize + 'static>(output: &T) -> Result<Option<String>, InvalidJson> {
    if TypeId::of::<T>() == TypeId::of::<()>() {
        return Ok(None);
    }
    json_text("the result", output, RESULT_BYTES_MAX).map(Some)
}

#[cfg(test)]
mod tests;
