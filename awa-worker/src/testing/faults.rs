//! What is to go wrong in a test, counted from 1.

/// Faults of one [`Drain`](crate::testing::Drain) or [`TestRun`](crate::testing::TestRun): what is to go wrong, and when.
/// Each is counted from 1, happens once, and can be combined with the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[must_use = "a fault has to be given to a drain or a run"]
pub struct Faults {
    pub(super) crash_after_claim: Option<usize>,
    pub(super) crash_before_settling: Option<usize>,
    pub(super) lose_lease: Option<usize>,
    pub(super) fail_request: Option<usize>,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn new() -> Self {
        Self::default()
    }

    /// The n-th attempt is claimed and never begun, as if the process had died just then. Its job stays `running`, and is
    /// handed back by the next [`advance`](crate::testing::advance) after the drain. A single run does not claim.
    pub fn crash_after_claim(self, n: usize) -> Self {
        Self { crash_after_claim: Some(n), ..self }
    }

    /// The handler of the n-th attempt runs to its end, and the process dies before the outcome is written: the job runs
    /// again, as after [`Faults::crash_after_claim`]. Shows whether doing the work twice does harm.
    pub fn crash_before_settling(self, n: usize) -> Self {
        Self { crash_before_settling: Some(n), ..self }
    }

    /// The n-th attempt has lost its lease before its handler begins: the handler is told to stop, nothing that it stores is
    /// accepted, and what it returns has no effect.
    pub fn lose_lease(self, n: usize) -> Self {
        Self { lose_lease: Some(n), ..self }
    }

    /// The n-th request of a handler to the database (an explicit flush of progress, and whatever else waits for an answer)
    /// fails as if the connection had been lost.
    pub fn fail_request(self, n: usize) -> Self {
        Self { fail_request: Some(n), ..self }
    }
}
