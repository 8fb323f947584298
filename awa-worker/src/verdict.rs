//! What becomes of an attempt: the decision, apart from the doing.

use std::time::Duration;

use awa_model::{Outcome, RetryPolicy, error_text, limits};
use awa_storage::settle::Verdict;

use crate::attempts::CancelReason;
use crate::error::{JobError, Next};
use crate::handler::RawOutcome;
use crate::panics::Panic;

/// The error of a handler that answers with `Committed` while the job still runs.
const UNCOMMITTED: &str =
    "the handler says that it completed the job in a transaction of its own, but no such transaction has committed";

/// How the handler's part ended.
#[derive(Debug)]
pub(crate) enum Answer {
    Returned(Result<RawOutcome, JobError>),
    Panicked(Panic),
    /// It went on past its time and the grace after it.
    TimedOut,
}

/// What is to be written.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Completed, with the result as JSON if there is one.
    Completed(Option<String>),
    Settled(Verdict),
}

impl Ending {
    /// The job goes back as it was, without having spent an attempt.
    pub(crate) fn given_back() -> Self {
        Self::Settled(Verdict::Release)
    }

    /// What went wrong, if something did.
    pub(crate) fn error(&self) -> Option<&str> {
        match self {
            Self::Settled(Verdict::Retry { error, .. } | Verdict::Fail { error }) => Some(error),
            Self::Completed(_) | Self::Settled(_) => None,
        }
    }

    /// A word for logs. What asks for another attempt after the last one fails the job.
    pub(crate) fn name(&self, is_last: bool) -> &'static str {
        match self {
            Self::Completed(_) => "complete",
            Self::Settled(Verdict::Retry { .. }) if is_last => "fail",
            Self::Settled(Verdict::Retry { .. }) => "retry",
            Self::Settled(Verdict::Snooze { .. }) => "snooze",
            Self::Settled(Verdict::Fail { .. }) => "fail",
            Self::Settled(Verdict::Cancel { .. }) => "cancel",
            Self::Settled(Verdict::Committed { .. }) => "committed",
            Self::Settled(Verdict::Park { .. }) => "park",
            Self::Settled(_) => "release",
        }
    }

    /// Deciding itself panicked, in user code that it had to run.
    pub(crate) fn of_panic(panic: &Panic) -> Self {
        Self::Settled(Verdict::Retry { after: None, error: error_text(panic) })
    }
}

/// The facts beside the answer that the decision depends on.
#[derive(Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) reason: Option<CancelReason>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry_policy: Option<&'a RetryPolicy>,
    /// The number of this attempt, from 1.
    pub(crate) attempt: i16,
    /// A fraction in 0..1.
    pub(crate) jitter: f64,
}

/// Decides how the attempt ends.
///
/// An `Ok` counts even when it comes late: the work was done. A failure that follows our own request to stop is blamed on
/// that request, unless the handler called it fatal.
pub(crate) fn ending(answer: Answer, at: &Circumstances<'_>) -> Ending {
    let error = match answer {
        Answer::Returned(Ok(Outcome::Complete(result))) => return Ending::Completed(result),
        Answer::Returned(Ok(Outcome::Snooze(delay))) => {
            return Ending::Settled(Verdict::Snooze { after: delay.min(limits::RUN_IN_MAX) });
        }
        Answer::Returned(Ok(Outcome::Cancel(reason))) => {
            return Ending::Settled(Verdict::Cancel { reason: error_text(&reason) });
        }
        Answer::Returned(Ok(Outcome::Committed)) => {
            return Ending::Settled(Verdict::Committed { after: usual_delay(at), error: UNCOMMITTED.to_owned() });
        }
        Answer::Returned(Ok(Outcome::WaitFor(callback))) => return Ending::Settled(Verdict::Park { callback }),
        Answer::Returned(Err(error)) => error,
        Answer::Panicked(panic) => JobError::retryable(panic.to_string()),
        Answer::TimedOut => return timed_out(at, ""),
    };
    let text = error.describe();
    match (error.next(), at.reason) {
        (Next::Fail, _) => Ending::Settled(Verdict::Fail { error: text }),
        (_, Some(CancelReason::Shutdown)) => Ending::Settled(Verdict::Release),
        (_, Some(CancelReason::TimedOut)) => timed_out(at, &text),
        (Next::RetryAfter(delay), _) => {
            Ending::Settled(Verdict::Retry { after: Some(delay.min(limits::RETRY_DELAY_MAX)), error: text })
        }
        (Next::Retry, _) => Ending::Settled(Verdict::Retry { after: usual_delay(at), error: text }),
    }
}

fn timed_out(at: &Circumstances<'_>, then: &str) -> Ending {
    let mut error = match at.timeout {
        Some(timeout) => format!("timed out after {timeout:?}"),
        None => "timed out".to_owned(),
    };
    if !then.is_empty() {
        error = error_text(&format_args!("{error}; asked to stop, the handler failed: {then}"));
    }
    Ending::Settled(Verdict::Retry { after: usual_delay(at), error })
}

/// The delay by the kind's own policy; without one the database computes its usual back-off.
fn usual_delay(at: &Circumstances<'_>) -> Option<Duration> {
    let attempt = u32::try_from(at.attempt).unwrap_or(1);
    at.retry_policy.map(|policy| policy.delay(attempt, at.jitter))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn check(answer: Answer, reason: Option<CancelReason>) -> Ending {
        let at = Circumstances { reason, timeout: Some(MINUTE), retry_policy: None, attempt: 1, jitter: 0.0 };
        ending(answer, &at)
    }

    fn failed(error: JobError) -> Answer {
        Answer::Returned(Err(error))
    }

    #[test]
    fn success_counts_even_when_it_comes_late() {
        for reason in [None, Some(CancelReason::TimedOut), Some(CancelReason::Shutdown)] {
            let done = Answer::Returned(Ok(Outcome::Complete(Some("7".to_owned()))));
            assert!(matches!(check(done, reason), Ending::Completed(Some(result)) if result == "7"));
        }
    }

    #[test]
    fn a_completion_of_the_handlers_own_is_looked_at_and_not_believed() {
        for reason in [None, Some(CancelReason::LeaseLost), Some(CancelReason::TimedOut), Some(CancelReason::Shutdown)]
        {
            let ending = check(Answer::Returned(Ok(Outcome::Committed)), reason);
            assert!(matches!(ending, Ending::Settled(Verdict::Committed { after: None, .. })));
            assert_eq!(ending.error(), None);
        }
    }

    #[test]
    fn a_failure_during_shutdown_spends_no_attempt() {
        let ending = check(failed(JobError::retryable("interrupted")), Some(CancelReason::Shutdown));
        assert!(matches!(ending, Ending::Settled(Verdict::Release)));
    }

    #[test]
    fn a_fatal_error_is_fatal_whatever_else_happened() {
        for reason in [None, Some(CancelReason::TimedOut), Some(CancelReason::Shutdown)] {
            let ending = check(failed(JobError::fatal("broken")), reason);
            assert!(matches!(ending, Ending::Settled(Verdict::Fail { error }) if error == "broken"));
        }
    }

    #[test]
    fn a_failure_of_the_last_attempt_is_called_final() {
        let ending = check(failed("broken".into()), None);
        assert_eq!([ending.name(false), ending.name(true)], ["retry", "fail"]);
    }

    #[test]
    fn a_failure_after_the_timeout_tells_of_both() {
        let ending = check(failed("stopped".into()), Some(CancelReason::TimedOut));
        let Ending::Settled(Verdict::Retry { error, after: None }) = ending else { panic!("{ending:?}") };
        assert_eq!(error, "timed out after 60s; asked to stop, the handler failed: stopped");
    }

    #[test]
    fn delays_come_from_the_error_then_the_policy_then_the_database() {
        let own = check(failed(JobError::retryable("x").retry_after(MINUTE)), None);
        assert!(matches!(own, Ending::Settled(Verdict::Retry { after: Some(MINUTE), .. })));
        let usual = check(failed("x".into()), None);
        assert!(matches!(usual, Ending::Settled(Verdict::Retry { after: None, .. })));
    }
}
