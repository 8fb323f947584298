//! What the parts of a running worker share.

use std::future::Future;
use std::sync::Arc;

use awa_model::WorkerId;
use awa_storage::session::Sessions;
use awa_storage::{Claimed, Cursors, Error};
use sqlx::PgPool;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempts::{Attempt, Attempts};
use crate::blocked::Ticks;
use crate::bounded::Patience;
use crate::config::Config;
use crate::context::Services;
use crate::executor;
use crate::finalizer::Finished;
use crate::flow::Flow;
use crate::leftovers::Leftovers;
use crate::middleware::Layers;
use crate::registry::Registry;
use crate::slots::{Slot, Slots};
use crate::verdict::Ending;
use crate::watched::Watched;

/// One running worker.
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) worker: WorkerId,
    /// What lies behind the connections, for those who open more of them.
    pub(crate) sessions: Sessions,
    pub(crate) pool: PgPool,
    pub(crate) cursors: Cursors,
    pub(crate) registry: Arc<Registry>,
    pub(crate) layers: Layers,
    pub(crate) services: Arc<Services>,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) slots: Slots,
    pub(crate) flow: Flow,
    /// The jobs that the client of this worker waits for: told when one of them is settled.
    pub(crate) watched: Arc<Watched>,
    /// Handlers that run, whether or not their attempt is still held.
    pub(crate) handlers: TaskTracker,
    /// Outcomes on their way to the finalizer.
    pub(crate) finished: mpsc::UnboundedSender<Finished>,
    /// Whose turn it is to settle an attempt alone.
    pub(crate) alone: tokio::sync::Mutex<()>,
    /// What a drain leaves unfinished.
    pub(crate) leftovers: Leftovers,
    /// Counts time for polls of handlers.
    pub(crate) ticks: Ticks,
    /// Fired first: nothing is claimed from here on, while everything else goes on.
    pub(crate) draining: CancellationToken,
    /// Fired last: handlers are cut off at their next await, and settlements that still fail are given up.
    pub(crate) abandoned: CancellationToken,
    /// Hears both.
    pub(crate) patience: Patience,
}

impl Engine {
    /// Runs a statement for as long as is reasonable at the moment.
    pub(crate) async fn bounded<T>(&self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.patience.bounded(statement).await
    }

    /// Starts the handlers of jobs that were just claimed.
    ///
    /// Jobs that arrive when the process drains already go back at once: their claim was under way when the drain began.
    pub(crate) fn launch(self: &Arc<Self>, claimed: Vec<Claimed>) {
        let mut arrived = Vec::with_capacity(claimed.len());
        for job in claimed {
            let slot = self.slots.take(&job.queue);
            let (attempt, args) = Attempt::of(job, self.config.progress_bytes_max);
            arrived.push((Arc::new(attempt), args, slot));
        }
        self.attempts.hold(arrived.iter().map(|(attempt, ..)| attempt));
        let draining = self.draining.is_cancelled();
        for (attempt, args, slot) in arrived {
            match slot {
                Some(slot) if !draining => {
                    self.handlers.spawn(executor::execute(Arc::clone(self), attempt, args, slot));
                }
                slot => {
                    self.give_back(attempt, slot);
                }
            }
        }
    }

    /// Returns a job that nobody runs, or nobody any longer, as if it had not been claimed.
    pub(crate) fn give_back(self: &Arc<Self>, attempt: Arc<Attempt>, slot: Option<Slot>) {
        // Without a lease, somebody else has said already how the attempt ended.
        if let Some(lease) = attempt.take_lease() {
            self.finish(Finished::new(self, attempt, lease, Ending::given_back(), slot.map(Arc::new)));
        }
    }

    /// Hands an outcome to the finalizer.
    pub(crate) fn finish(&self, finished: Finished) {
        if let Err(returned) = self.finished.send(finished) {
            tracing::error!(
                job.id = returned.0.job_id().get(),
                "an attempt ended after the worker: rescue will find it"
            );
        }
    }
}
