//! How long a job waits after an attempt went wrong. Pure: the attempt and the jitter are passed in.

use std::{fmt, sync::Arc, time::Duration};

use crate::limits;

/// The rule by which the next attempt is delayed.
#[derive(Clone, Default)]
pub struct RetryPolicy(Rule);

#[derive(Clone, Default)]
enum Rule {
    #[default]
    Exponential,
    Fixed(Duration),
    Custom(Arc<dyn Fn(u32) -> Duration + Send + Sync>),
}

/// Where the doubling ends.
const EXPONENTIAL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest share that jitter adds.
const JITTER_SHARE: f64 = 0.25;

impl RetryPolicy {
    /// Twice as long each time: 2 s after the first attempt, then 4 s, 8 s and so on to 24 h, plus up to a quarter of it at
    /// random so that jobs that failed together do not come back together. The default.
    pub const fn exponential() -> Self {
        Self(Rule::Exponential)
    }

    /// The same delay each time, without jitter.
    pub const fn fixed(delay: Duration) -> Self {
        Self(Rule::Fixed(delay))
    }

    /// What `delay` answers for the number of the attempt that went wrong, 1 for the first. Should it panic, so does the
    /// caller of [`delay`](Self::delay).
    pub fn custom(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Self {
        Self(Rule::Custom(Arc::new(delay)))
    }

    /// The delay after attempt number `attempt` went wrong, 1 for the first.
    ///
    /// `jitter` is a random number from 0 to 1 and matters only to [`exponential`](Self::exponential); anything else is
    /// taken as the nearer end, NaN as 0. Never more than ten years, whatever a custom rule says.
    pub fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let delay = match &self.0 {
            Rule::Exponential => exponential(attempt, jitter),
            Rule::Fixed(delay) => *delay,
            Rule::Custom(rule) => rule(attempt),
        };
        delay.min(limits::RETRY_DELAY_MAX)
    }
}

fn exponential(attempt: u32, jitter: f64) -> Duration {
    // The exponent is clamped before anything is built from it: 2^17 s is past the maximum already.
    let base = Duration::from_secs(1 << attempt.min(17)).min(EXPONENTIAL_MAX);
    let jitter = if jitter.is_nan() { 0.0 } else { jitter.clamp(0.0, 1.0) };
    base.mul_f64(1.0 + JITTER_SHARE * jitter)
}

impl fmt::Debug for RetryPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Rule::Exponential => formatter.write_str("Exponential"),
            Rule::Fixed(delay) => formatter.debug_tuple("Fixed").field(delay).finish(),
            Rule::Custom(_) => formatter.write_str("Custom"),
        }
    }
}

#[cfg(test)]
mod tests;
