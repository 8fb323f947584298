//! How many jobs of one kind this process runs at once, where the kind says.
//!
//! Claims know queues and no kinds, so a job may arrive when its kind is at the limit. It waits for a while, holding the
//! slot of its queue, and then goes back to the queue: a kind that is slow for long must not keep the slots from others.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a job waits for a place among those of its kind before it goes back to its queue.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(1);

/// The places of one kind.
#[derive(Debug)]
pub(crate) struct KindLimit(Arc<Semaphore>);

/// A place; free again when it is dropped, that is when the handler has returned.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl KindLimit {
    pub(crate) fn new(max_workers: usize) -> Self {
        Self(Arc::new(Semaphore::new(max_workers.min(Semaphore::MAX_PERMITS))))
    }

    /// A place as soon as there is one, first come first served. Dropped, it leaves the line.
    pub(crate) async fn place(&self) -> Place {
        let permit = Arc::clone(&self.0).acquire_owned().await.expect("the places are never closed");
        Place { _permit: permit }
    }
}
