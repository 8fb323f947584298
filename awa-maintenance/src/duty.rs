//! A duty: something the leader does again and again. It knows one pass, and no loop.

use std::time::Duration;

use async_trait::async_trait;
use awa_storage::audit::AuditCursor;
use tokio::time::Instant;
use tracing::Span;

use crate::Error;

/// One thing the leader sees to.
///
/// A pass does a bounded piece of work and says when to come again. It has to be safe beside another process that does the
/// same, and after a pass that failed or was dropped: what it keeps between passes are hints, never a list of what is done.
#[async_trait]
pub trait Duty: Send + Sync {
    /// Names the duty in logs.
    fn name(&self) -> &'static str;

    /// The span that a pass runs in.
    fn span(&self) -> Span;

    /// Does one bounded piece of work.
    ///
    /// # Errors
    ///
    /// If the database does not answer. The next pass starts over.
    async fn pass(&self) -> Result<Pass, Error>;

    /// Waits until there is a reason to come sooner than the last pass has said. There never is one but for a duty that says so.
    async fn called(&self) {
        std::future::pending::<()>().await;
    }

    /// How far it is, for a duty that walks through everything.
    fn walk(&self) -> Option<Walk> {
        None
    }
}

/// How far a walk through everything is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// Where it goes on.
    pub at: AuditCursor,
    /// When it last reached the end.
    pub ended: Option<Instant>,
    /// What it found that must not be there.
    pub finds: usize,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// How many rows, batches or segments it changed.
    pub changed: usize,
    /// When to come again.
    pub next: Next,
}

/// When a duty wants its next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There is more to do.
    Now,
    /// After this long.
    In(Duration),
}

impl Next {
    /// How long to wait.
    pub const fn pause(self) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::In(pause) => pause,
        }
    }
}
