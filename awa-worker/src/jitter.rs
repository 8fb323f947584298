//! Randomness for spreading things out; nothing is decided by it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// A fraction in 0..1.
pub(crate) fn fraction() -> f64 {
    // Each RandomState has keys of its own, so what its hasher says of nothing is random enough.
    let bits = RandomState::new().build_hasher().finish() >> 11;
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
    let fraction = bits as f64 / (1_u64 << 53) as f64;
    fraction
}

/// `base`, lengthened by up to a half.
pub(crate) fn lengthened(base: Duration) -> Duration {
    base.mul_f64(1.0 + fraction() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_spread_over_the_unit_interval() {
        let drawn: Vec<f64> = (0..1000).map(|_| fraction()).collect();
        assert!(drawn.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        for quarter in 0..4 {
            let low = f64::from(quarter) / 4.0;
            let inside = drawn.iter().filter(|fraction| (low..low + 0.25).contains(*fraction)).count();
            assert!((150..350).contains(&inside), "{inside} of 1000 in quarter {quarter}");
        }
    }
}
