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
    note = "a handler is `async fn(Args, …) -> Result<R, E>`: `Args: JobArgs`, then up to three extractors (`JobContext`, `Data<T>`), `R` the output of the args or an `Outcome`, `E` any error"
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

    /// Runs one attempt.
    fn call(
        &self,
        args: Self::Args,
        context: JobContext,
    ) -> impl Future<Output = Result<Outcome<<Self::Args as JobArgs>::Output>, JobError>> + Send;
}

/// A handler written as a type, for kinds that bring their own timeout or back-off.
pub trait Worker: Send + Sync + 'static {
    /// The args, which name the kind.
    type Args: JobArgs;

    /// How long to wait before another attempt; `None` leaves it to the database's usual back-off.
    fn retry_policy(&self) -> Option<RetryPolicy> {
        None
    }

    /// The time that one attempt with these args may take, counted by this process; `None` leaves it to the job.
    fn timeout(&self, _args: &Self::Args) -> Option<Duration> {
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
}

impl<Marker, H: Handler<Marker>> HandlerExt<Marker> for H {}

impl<H, Marker> Registration<H, Marker> {
    fn of(handler: H) -> Self {
        Self { handler, retry_policy: None, is_fatal: Vec::new(), marker: PhantomData }
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
        self.handler.timeout(args)
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

/// An attempt that is about to run.
pub(crate) struct Call<'a> {
    pub(crate) timeout: Option<Duration>,
    pub(crate) running: BoxFuture<'a, Result<RawOutcome, JobError>>,
}

/// A handler whose args are still JSON.
pub(crate) trait ErasedHandler: Send + Sync {
    /// Decodes the args, once, and prepares the call. Args that do not fit fail the attempt like any other error.
    fn prepare<'a>(&'a self, args: &str, context: JobContext) -> Result<Call<'a>, JobError>;
}

/// [`ErasedHandler`] for a handler of any type.
pub(crate) struct Erased<H, Marker>(H, PhantomData<fn() -> Marker>);

impl<H, Marker> Erased<H, Marker> {
    pub(crate) fn new(handler: H) -> Self {
        Self(handler, PhantomData)
    }
}

impl<Marker: 'static, H: Handler<Marker>> ErasedHandler for Erased<H, Marker> {
    fn prepare<'a>(&'a self, args: &str, context: JobContext) -> Result<Call<'a>, JobError> {
        let args: H::Args = serde_json::from_str(args).map_err(|error| {
            JobError::retryable(format!("the args do not fit `{}`: {error}", type_name::<H::Args>()))
        })?;
        let timeout = self.0.timeout(&args);
        let running = Box::pin(async move { self.0.call(args, context).await.and_then(encode) });
        Ok(Call { timeout, running })
    }
}

/// Turns the output into JSON that `jsonb` can hold.
fn encode<T: serde::Serialize + 'static>(outcome: Outcome<T>) -> Result<RawOutcome, JobError> {
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
