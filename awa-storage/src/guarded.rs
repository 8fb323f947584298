//! The answer of a write that is guarded by a lease.

/// Whether a guarded write was applied, or found that its lease is no longer valid.
///
/// `Lost` is an expected answer, not an error: another attempt, an operator or a rescue owns the job now, and nothing was
/// changed.
#[must_use = "a lost lease means that somebody else owns the job"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarded<T> {
    /// The write took effect.
    Applied(T),
    /// The lease is lost; nothing was changed.
    Lost,
}

impl<T> Guarded<T> {
    /// Whether the write took effect.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_))
    }
}
