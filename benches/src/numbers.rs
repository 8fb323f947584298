//! Small statistics and the way numbers are printed.

/// The middle value, or zero without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The mean, or zero without any value.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// A whole number with commas between thousands.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

/// A generator of numbers that look random and are the same in every run (SplitMix64).
pub(crate) struct Dice(u64);

impl Dice {
    /// The generator of one seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `limit`.
    pub(crate) const fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }
}
