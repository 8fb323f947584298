//! The work: some 150 bytes of JSON, the same for every peer in every language, and a handler that does nothing with it.

use std::sync::OnceLock;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Kind of all jobs, where a peer has kinds.
pub const KIND: &str = "noop";
/// Queue of all jobs, where a peer lets one choose.
pub const QUEUE: &str = "bench";

/// The args of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Payload {
    /// Counts the jobs of a run, from 0.
    pub number: u64,
    /// When enqueueing began, in microseconds since the program started.
    pub sent_us: u64,
    account: u64,
    address: String,
    template: String,
    trace: String,
    retries: bool,
}

impl Payload {
    /// Job `number`, sent now.
    pub(crate) fn new(number: u64) -> Self {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            number,
            sent_us: now_us(),
            account: 100_000 + mixed % 900_000,
            address: format!("someone.{:04}@example.com", mixed % 10_000),
            template: "order_confirmation".to_owned(),
            trace: format!("{mixed:016x}"),
            retries: false,
        }
    }

    /// Jobs `first..first + count`, sent now.
    pub(crate) fn batch(first: u64, count: u64) -> Vec<Self> {
        (first..first + count).map(Self::new).collect()
    }
}

/// Microseconds since the first call: producer and handler are in one process and share this clock.
pub(crate) fn now_us() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    //! The size is part of what the tables say.

    use super::Payload;

    #[test]
    fn payload_is_about_150_bytes_of_json() {
        for number in [0, 7, 49_999] {
            let length = serde_json::to_string(&Payload::new(number)).expect("plain data").len();
            assert!((140..=165).contains(&length), "{length}");
        }
    }
}
