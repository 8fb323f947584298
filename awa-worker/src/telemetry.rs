//! Names of spans and fields, so that dashboards and code cannot disagree.

use tracing::{Span, debug_span, info_span};

use crate::attempts::Attempt;

/// The span of one claim, for all queues of the process.
pub const CLAIM: &str = "awa.claim";
/// The span of one attempt, from decoding its args to the handler's answer.
pub const ATTEMPT: &str = "awa.attempt";
/// The span of one batch of settlements.
pub const FINALIZE: &str = "awa.finalize";

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
/// How the attempt ended.
pub const OUTCOME: &str = "outcome";
/// How many rows a batch has.
pub const BATCH_SIZE: &str = "batch.size";

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

/// The span of a claim of up to `size` jobs. Claims are many and short, so it is there for those who ask for detail.
pub(crate) fn claim_span(size: usize) -> Span {
    debug_span!(CLAIM, { BATCH_SIZE } = size)
}

/// The span of a batch of settlements.
pub(crate) fn finalize_span(size: usize) -> Span {
    debug_span!(FINALIZE, { BATCH_SIZE } = size)
}

#[cfg(test)]
mod tests {
    //! The page about telemetry and the names here say the same.

    use super::*;

    const PAGE: &str = include_str!("../../docs/telemetry.md");

    /// Names in the first column of the table under a heading.
    fn listed(heading: &str) -> Vec<&str> {
        let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading is there");
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
    }

    #[test]
    fn the_page_lists_every_span_of_a_worker() {
        let spans = listed("Spans");
        for span in [CLAIM, ATTEMPT, FINALIZE] {
            assert!(spans.contains(&span), "{span} is not in docs/telemetry.md");
        }
    }

    #[test]
    fn the_page_lists_the_fields_and_no_others() {
        let fields = [JOB_ID, JOB_KIND, JOB_QUEUE, JOB_ATTEMPT, JOB_RUN_LEASE, WORKER_ID, OUTCOME, BATCH_SIZE];
        assert_eq!(listed("Fields"), fields);
    }
}
