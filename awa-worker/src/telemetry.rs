//! Names of spans and fields, so that dashboards and code cannot disagree.

use tracing::{Span, info_span};

use crate::attempts::Attempt;

/// The span of one attempt, from decoding its args to the handler's answer.
pub const ATTEMPT: &str = "awa.attempt";

/// The id of the job.
pub const JOB_ID: &str = "job.id";
/// The kind of the job.
pub const JOB_KIND: &str = "job.kind";
/// The queue of the job.
pub const JOB_QUEUE: &str = "job.queue";
/// The number of the attempt, from 1.
pub const JOB_ATTEMPT: &str = "job.attempt";
/// The number of the lease.
pub const JOB_RUN_LEASE: &str = "job.run_lease";
/// The id of the worker process.
pub const WORKER_ID: &str = "worker.id";

/// The span of an attempt. Costs a check where nobody subscribes.
pub(crate) fn attempt_span(attempt: &Attempt) -> Span {
    let facts = &attempt.facts;
    info_span!(
        ATTEMPT,
        { JOB_ID } = attempt.job_id().get(),
        { JOB_KIND } = %facts.kind,
        { JOB_QUEUE } = %facts.queue,
        { JOB_ATTEMPT } = facts.attempt,
        { JOB_RUN_LEASE } = attempt.held.run_lease().get(),
    )
}
