//! Delays at every attempt and for any jitter stay within their bounds.

use std::time::Duration;

use proptest::prelude::*;

use super::RetryPolicy;
use crate::limits;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[test]
fn the_delay_doubles_up_to_a_day() {
    let seconds = |attempt| RetryPolicy::exponential().delay(attempt, 0.0).as_secs();
    assert_eq!([0, 1, 2, 3, 10, 16].map(seconds), [1, 2, 4, 8, 1024, 65_536]);
    assert_eq!([17, 18, 63, 64, u32::MAX].map(seconds), [86_400; 5]);
}

#[test]
fn jitter_adds_up_to_a_quarter() {
    let delay = |jitter| RetryPolicy::exponential().delay(3, jitter);
    assert_eq!(delay(0.5), Duration::from_secs(9));
    assert_eq!(delay(1.0), Duration::from_secs(10));
    assert_eq!([f64::NAN, f64::NEG_INFINITY, -1.0].map(delay), [Duration::from_secs(8); 3]);
    assert_eq!([7.0, f64::INFINITY].map(delay), [Duration::from_secs(10); 2]);
}

#[test]
fn a_fixed_delay_takes_no_jitter() {
    assert_eq!(RetryPolicy::fixed(DAY).delay(9, 1.0), DAY);
}

#[test]
fn a_custom_rule_sees_the_attempt_and_is_held_to_the_maximum() {
    let policy = RetryPolicy::custom(|attempt| Duration::from_secs(1) * attempt);
    assert_eq!(policy.delay(5, 0.9), Duration::from_secs(5));
    assert_eq!(RetryPolicy::custom(|_| Duration::MAX).delay(1, 0.0), limits::RETRY_DELAY_MAX);
}

// RETRY-02
#[test]
fn every_policy_has_a_delay_at_every_attempt_there_can_be() {
    let doubling = |attempt: u32| Duration::from_secs(2).saturating_mul(2_u32.saturating_pow(attempt));
    let policies = [
        RetryPolicy::exponential(),
        RetryPolicy::fixed(Duration::MAX),
        RetryPolicy::custom(move |attempt| doubling(attempt).saturating_mul(1_000_000)),
    ];
    for policy in policies {
        for jitter in [0.0, 0.5, 1.0] {
            let mut before = Duration::ZERO;
            for attempt in 1..=32_767 {
                let delay = policy.delay(attempt, jitter);
                assert!(delay > Duration::ZERO && delay >= before, "{policy:?} at {attempt}: {delay:?}");
                assert!(delay <= limits::RETRY_DELAY_MAX, "{policy:?} at {attempt}: {delay:?}");
                before = delay;
            }
        }
    }
}

proptest! {
    #[test]
    fn exponential_delays_stay_between_one_second_and_thirty_hours(attempt: u32, jitter: f64) {
        let delay = RetryPolicy::exponential().delay(attempt, jitter);
        prop_assert!(delay >= Duration::from_secs(1));
        prop_assert!(delay <= DAY + DAY / 4);
    }

    #[test]
    fn a_later_attempt_never_waits_less(attempt in 0..40_u32, jitter in 0.0..1.0_f64) {
        let policy = RetryPolicy::default();
        prop_assert!(policy.delay(attempt, jitter) <= policy.delay(attempt + 1, jitter));
    }
}
