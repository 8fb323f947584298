//! Running what a queue holds, inside a test.

use std::sync::{Arc, Mutex, PoisonError};

use awa_model::{InvalidJob, JobId, JobState, Kind, QueueName, WorkerId};
use awa_storage::session::Sessions;
use awa_storage::{Claimed, Cursors, workers};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

use super::faults::Faults;
use super::left::{self, LeftJob};
use super::lent::{self, Request};
use super::stores::{LentStore, Requests};
use super::time::promote_due;
use crate::attempts::{Attempt, CancelReason};
use crate::bounded::Patience;
use crate::client::{Client, Shared};
use crate::config::ServedQueue;
use crate::engine::Engine;
use crate::executor;
use crate::failure::Error;
use crate::finalizer::Finished;
use crate::{panics, runtime};

/// A drain that makes more attempts than this goes round in circles, and panics.
pub const ATTEMPTS_MAX: usize = 10_000;

/// Claims and runs the jobs of a queue until none is left that is due, one after the other, and says what became of each.
///
/// Claims, executor and settlements are those of a worker, on a connection of its own with the options of the client's
/// pool. Jobs that become due meanwhile run too, those that handlers enqueue included; what is scheduled for later stays, see
/// [`advance`](crate::testing::advance). The client must have a handler for each kind that is to run; which queues it
/// serves does not matter.
///
/// Dropping the future is the death of a process: its handler ends at its next await, and what it had claimed stays `running`
/// until the next [`advance`](crate::testing::advance) hands it back.
///
/// # Errors
/// [`Error::Storage`] if the database does not answer, [`Error::InvalidJob`] for a text that names no queue.
///
/// # Panics
/// After [`ATTEMPTS_MAX`] attempts.
pub async fn drain(client: &Client, queue: &str) -> Result<Drained, Error> {
    Drain::new().run(client, queue).await
}

/// As [`drain`], on the caller's connection: `drain_in(&mut tx, &client, "images")` runs jobs that only this transaction sees.
/// Everything that the attempts write goes through it too, so a rollback leaves nothing behind.
///
/// Times do not pass inside a transaction: its `now()` stays. A statement that the database refuses spoils the transaction, as
/// it does elsewhere. What handlers do with a pool of their own does not see the transaction's rows.
///
/// # Errors
/// As [`drain`].
///
/// # Panics
/// As [`drain`].
pub async fn drain_in(db: &mut PgConnection, client: &Client, queue: &str) -> Result<Drained, Error> {
    Drain::new().run_in(db, client, queue).await
}

/// A drain with options.
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "nothing happens before it is run"]
pub struct Drain {
    faults: Faults,
}

impl Drain {
    /// A drain like [`drain`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets something go wrong. Attempts are counted in the order in which they are claimed.
    pub fn faults(self, faults: Faults) -> Self {
        Self { faults }
    }

    /// Drains the queue; see [`drain`].
    ///
    /// # Errors
    /// As [`drain`].
    ///
    /// # Panics
    /// As [`drain`].
    pub async fn run(self, client: &Client, queue: &str) -> Result<Drained, Error> {
        let options = client.pool().connect_options();
        let mut connection = options.connect().await.map_err(awa_storage::Error::from)?;
        let drained = self.run_in(&mut connection, client, queue).await;
        connection.close().await.map_err(awa_storage::Error::from)?;
        drained
    }

    /// Drains the queue on the caller's connection; see [`drain_in`].
    ///
    /// # Errors
    /// As [`drain`].
    ///
    /// # Panics
    /// As [`drain`].
    pub async fn run_in(self, db: &mut PgConnection, client: &Client, queue: &str) -> Result<Drained, Error> {
        panics::install_hook();
        let queue = QueueName::new(queue.to_owned()).map_err(InvalidJob::from)?;
        let shared = client.shared();
        // As long as the client would let an attempt of this queue run.
        let timeout = shared.queues.iter().find(|served| served.name == queue).and_then(|served| served.timeout);
        let served = ServedQueue { name: queue.clone(), max_workers: ATTEMPTS_MAX, timeout };
        let shared = Arc::new(shared.serving(served));
        let worker = WorkerId::random();
        let (connection, requests) = lent::lend();
        let requested = Requests::new(self.faults.fail_request);
        let store = Arc::new(LentStore { requests: requested, connection, lost: Mutex::new(None) });
        let pool = client.pool().clone();
        let sessions = Sessions::unknown(pool.connect_options().as_ref().clone());
        let (engine, inbox) =
            runtime::engine(&shared, pool, sessions, worker, Patience::default(), Arc::clone(&store) as Arc<_>);
        // However this ends, and where it is dropped: no handler goes on without it.
        let handlers = engine.abandoned.clone().drop_guard();
        workers::register(&mut *db, &runtime::worker_info(&shared, worker)).await?;
        let pass = Pass {
            engine: Arc::clone(&engine),
            store,
            inbox,
            requests,
            queue: queue.clone(),
            faults: self.faults,
            claims: 0,
        };
        let drained = pass.run(db, &shared).await;
        drop(handlers);
        // Awa's own name for it: whatever this process still holds may be taken from it at once.
        let _ = workers::unregister(&mut *db, worker).await?;
        let drained = drained?;
        let left = left::left(db, &queue, &shared.registry.kinds()).await?;
        Ok(Drained { left, ..drained })
    }
}

/// What became of the jobs of a queue.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Drained {
    /// Every attempt, in the order in which they ran. A job that was tried again is there several times.
    pub attempts: Vec<DrainedAttempt>,
    /// The jobs that still wait to be run, in this queue and in others, and why they were not: those that were enqueued first in
    /// front, at most ten thousand.
    pub left: Vec<LeftJob>,
}

/// One attempt of a drain.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DrainedAttempt {
    /// The job.
    pub job_id: JobId,
    /// Its kind.
    pub kind: Kind,
    /// The number of the attempt, from 1.
    pub attempt: i16,
    /// The state of the job after it. `Running` if its outcome was not written ([`Faults`]), `None` if the job is gone.
    pub state: Option<JobState>,
    /// What went wrong, where the job failed, is to be tried again, or was called off.
    pub error: Option<String>,
}

impl Drained {
    /// How many attempts there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Whether no attempt was made. [`left`](Self::left) says what was there and did not run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// How many attempts left their job in this state.
    #[must_use]
    pub fn count(&self, state: JobState) -> usize {
        self.attempts.iter().filter(|attempt| attempt.state == Some(state)).count()
    }

    /// What went wrong, in order.
    #[must_use]
    pub fn errors(&self) -> Vec<&str> {
        self.attempts.iter().filter_map(|attempt| attempt.error.as_deref()).collect()
    }
}

/// One drain under way.
struct Pass {
    engine: Arc<Engine>,
    store: Arc<LentStore>,
    inbox: UnboundedReceiver<Finished>,
    requests: UnboundedReceiver<Request>,
    queue: QueueName,
    faults: Faults,
    /// Attempts claimed so far.
    claims: usize,
}

impl Pass {
    async fn run(mut self, db: &mut PgConnection, shared: &Shared) -> Result<Drained, Error> {
        let mut drained = Drained::default();
        while let Some(claimed) = self.next(db, shared).await? {
            self.claims += 1;
            assert!(self.claims <= ATTEMPTS_MAX, "{ATTEMPTS_MAX} attempts, and queue {} is not empty", self.queue);
            let (job_id, kind, attempt) = (claimed.lease.job_id(), claimed.kind.clone(), claimed.attempt);
            self.attempt(db, claimed).await?;
            let (state, error) = became(db, job_id).await?;
            drained.attempts.push(DrainedAttempt { job_id, kind, attempt, state, error });
        }
        Ok(drained)
    }

    /// Claims the next job. Cursors that start at the marks find every row that this connection sees: only their word that
    /// nothing is left counts.
    async fn next(&self, db: &mut PgConnection, shared: &Shared) -> Result<Option<Claimed>, Error> {
        let wants = [(self.queue.clone(), 1)];
        if let Some(claimed) = self.engine.cursors.claim_in(db, &wants).await?.pop() {
            return Ok(Some(claimed));
        }
        promote_due(db).await?;
        let fresh = Cursors::new(self.engine.worker, &shared.registry.kinds(), std::slice::from_ref(&self.queue));
        fresh.load(&mut *db).await?;
        Ok(fresh.claim_in(db, &wants).await?.pop())
    }

    /// Runs a claimed job to its end, and serves what it asks for meanwhile.
    async fn attempt(&mut self, db: &mut PgConnection, claimed: Claimed) -> Result<(), Error> {
        let number = Some(self.claims);
        if self.faults.crash_after_claim == number {
            return Ok(());
        }
        let loses = self.faults.lose_lease == number;
        *self.store.lost.lock().unwrap_or_else(PoisonError::into_inner) = loses.then(|| claimed.lease.job_id());
        let Some(mut running) = begin(&self.engine, claimed, loses) else { return Ok(()) };
        let finished = loop {
            tokio::select! {
                biased;
                Some(request) = self.requests.recv() => request(db).await,
                Some(finished) = self.inbox.recv() => break Some(finished),
                _ = &mut running => break self.inbox.try_recv().ok(),
            }
        };
        let Some(finished) = finished else { return Ok(()) };
        if self.faults.crash_before_settling == number {
            drop(finished.unwritten());
            return Ok(());
        }
        Ok(finished.settle_on(db).await?)
    }
}

/// Starts the handler of a job on a task of its own. `None` if no slot is left, which takes as many handlers that do not end.
pub(super) fn begin(engine: &Arc<Engine>, claimed: Claimed, lose_lease: bool) -> Option<JoinHandle<()>> {
    let slot = engine.slots.take(&claimed.queue)?;
    let (attempt, args) = Attempt::of(claimed, engine.config.progress_bytes_max);
    let attempt = Arc::new(attempt);
    engine.attempts.hold([&attempt]);
    if lose_lease {
        engine.attempts.lose(&attempt, CancelReason::LeaseLost);
    }
    Some(engine.handlers.spawn(executor::execute(Arc::clone(engine), attempt, args, slot)))
}

/// The state that a job is in after an attempt, and what went wrong if that is where it led.
async fn became(db: &mut PgConnection, job: JobId) -> Result<(Option<JobState>, Option<String>), Error> {
    let Some(status) = awa_storage::admin::status(db, job).await? else { return Ok((None, None)) };
    let went_wrong = matches!(status.state, JobState::Retryable | JobState::Failed | JobState::Cancelled);
    Ok((Some(status.state), status.error.filter(|_| went_wrong)))
}
