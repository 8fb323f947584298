//! Middleware written for `tower`, around the running of jobs.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context, Poll};

use async_trait::async_trait;
use awa_model::Outcome;
use futures_util::future::BoxFuture;
use tower_layer::Layer;
use tower_service::Service;

use crate::context::JobContext;
use crate::error::JobError;
use crate::middleware::{Executed, JobOutput, Middleware, Next};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Makes a `tower` layer a [`Middleware`] around the running of jobs; enqueueing goes by it.
///
/// The layer is applied once. Its service is cloned for each attempt, so what is to be shared (a limit, a counter) has to
/// be shared by its clones, as those of `tower` do.
///
/// ```
/// # use std::time::Duration;
/// use awa_worker::TowerMiddleware;
/// use tower::timeout::TimeoutLayer;
///
/// # fn add(builder: awa_worker::ClientBuilder) -> awa_worker::ClientBuilder {
/// builder.middleware(TowerMiddleware::new(TimeoutLayer::new(Duration::from_secs(30))))
/// # }
/// ```
///
/// A layer that drops the future of the handler, as this one does when the time is over, cuts the handler off at its next
/// await. An error of the layer's own counts as a failed attempt that is worth another.
#[derive(Debug, Clone)]
pub struct TowerMiddleware<S> {
    service: S,
}

impl<S> TowerMiddleware<S> {
    /// Puts the layer around the running of jobs.
    pub fn new<L: Layer<RunJob, Service = S>>(layer: L) -> Self {
        Self { service: layer.layer(RunJob(())) }
    }
}

#[async_trait]
impl<S> Middleware for TowerMiddleware<S>
where
    S: Service<JobRequest, Response = Outcome<JobOutput>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
{
    async fn execute(&self, context: JobContext, next: Next) -> Executed {
        let mut service = self.service.clone();
        let ready = poll_fn(|waker| service.poll_ready(waker)).await.map_err(Into::into);
        let answer = match ready {
            Ok(()) => service.call(JobRequest { context, next }).await.map_err(Into::into),
            Err(error) => Err(error),
        };
        answer.map_err(|error: BoxError| match error.downcast::<JobFailure>() {
            // The handler's own failure, which knows what is to become of the job.
            Ok(failure) => failure.0,
            Err(other) => JobError::retryable(other),
        })
    }
}

/// An attempt on its way through `tower` services.
#[derive(Debug)]
pub struct JobRequest {
    context: JobContext,
    next: Next,
}

impl JobRequest {
    /// The attempt.
    #[must_use]
    pub fn context(&self) -> &JobContext {
        &self.context
    }
}

/// The innermost service: runs the job. A layer is given this one.
#[derive(Debug, Clone)]
pub struct RunJob(());

impl Service<JobRequest> for RunJob {
    type Response = Outcome<JobOutput>;
    type Error = JobFailure;
    type Future = BoxFuture<'static, Result<Outcome<JobOutput>, JobFailure>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), JobFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: JobRequest) -> Self::Future {
        let running = request.next.run();
        Box::pin(async move { running.await.map_err(JobFailure) })
    }
}

/// A [`JobError`] as `tower` wants errors to be.
#[derive(Debug)]
pub struct JobFailure(JobError);

impl JobFailure {
    /// The failure of the attempt.
    #[must_use]
    pub fn error(&self) -> &JobError {
        &self.0
    }
}

impl fmt::Display for JobFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for JobFailure {}
