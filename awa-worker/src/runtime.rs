//! A running worker: what is started, in which order, and who watches it.
//!
//! | part | runs | ends |
//! |---|---|---|
//! | heartbeat, listening, watching for blocked threads | on a thread of their own | after the last attempt |
//! | finalizer | on a task | after the last outcome |
//! | looker, dispatcher, maintenance | on a task each | when a drain begins |
//! | a handler | on a task each | by itself |
//! | supervisor | on a task | last |
//!
//! The supervisor owns the others. It waits for a wish to end, or for a part that ends unasked, and then takes everything
//! down in order ([`shutdown`](crate::shutdown)), whether or not anybody waits for that.

use std::sync::Arc;
use std::time::Duration;

use awa_maintenance::Ticked;
use awa_model::WorkerId;
use awa_storage::session::Sessions;
use awa_storage::workers::{self, WorkerInfo};
use awa_storage::{Cursors, schema};
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::attempts::Attempts;
use crate::blocked::Ticks;
use crate::bounded::{Patience, STATEMENT_MAX};
use crate::client::Shared;
use crate::config::Config;
use crate::context::Services;
use crate::engine::Engine;
use crate::failure::Error;
use crate::finalizer::{self, Finished};
use crate::flow::Flow;
use crate::idle::Sleeper;
use crate::leftovers::{Leftovers, ShutdownReport};
use crate::maintenance::Maintenance;
use crate::shutdown::{self, Ended, GOODBYE_MAX, Shutdown, Wish};
use crate::side::Side;
use crate::slots::Slots;
use crate::store::{PoolStore, Store};
use crate::{dispatcher, heartbeat, looker, maintenance, panics, schedules};

/// How long the worker's own statements wait for one of its connections.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the worker calls itself to the database and in the list of workers.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A worker that runs. Dropping it is [`Shutdown::Now`] without waiting for the end, for which the runtime has to live on.
#[must_use = "dropping it stops the worker"]
#[derive(Debug)]
pub struct Running {
    worker: WorkerId,
    wishes: watch::Sender<Wish>,
    ended: watch::Receiver<Ended>,
}

impl Running {
    /// The id under which this worker holds jobs.
    #[must_use]
    pub fn worker_id(&self) -> WorkerId {
        self.worker
    }

    /// Ends the worker and waits for the end. May be called several times, also at once from several tasks: all get the
    /// same answer, and the least patient decides how long draining lasts. Dropping this future takes nothing back.
    ///
    /// # Errors
    /// [`Error::Stopped`] if a part of the worker had failed.
    pub async fn shutdown(&self, how: Shutdown) -> Result<ShutdownReport, Error> {
        shutdown::wish(&self.wishes, how);
        self.ended().await
    }

    /// Waits until the worker has ended, for whatever reason.
    ///
    /// # Errors
    /// [`Error::Stopped`] if it ended because a part of it failed.
    pub async fn ended(&self) -> Result<ShutdownReport, Error> {
        let mut ended = self.ended.clone();
        let last = ended.wait_for(|ended| !matches!(ended, Ended::NotYet)).await.map(|ended| ended.clone());
        // The supervisor can only vanish with the runtime it runs on.
        last.ok().and_then(Ended::into_result).unwrap_or(Err(Error::Stopped { part: "runtime" }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        shutdown::wish(&self.wishes, Shutdown::Now);
    }
}

/// Starts a worker. On an error nothing is left running.
pub(crate) async fn start(shared: &Arc<Shared>) -> Result<Running, Error> {
    if shared.registry.is_empty() && !shared.config.maintenance_only {
        return Err(Error::NothingToRun);
    }
    panics::install_hook();
    // On a task of its own: a caller that gives up waiting leaves nothing half started. What the task then answers is
    // dropped, which ends the worker in order.
    let starting = tokio::spawn(start_parts(Arc::clone(shared)));
    starting.await.unwrap_or(Err(Error::Stopped { part: "runtime" }))
}

/// Does every duty once. On a task of its own: a caller that gives up waiting cuts off no statement.
pub(crate) async fn tick(shared: &Arc<Shared>, budget: Duration) -> Result<Vec<Ticked>, Error> {
    let shared = Arc::clone(shared);
    let ticking = tokio::spawn(async move {
        let sessions = reach(connect_options(&shared.pool)).await?;
        Ok(awa_maintenance::tick(&sessions, maintenance::settings(&shared.config), budget).await)
    });
    ticking.await.unwrap_or(Err(Error::Stopped { part: "runtime" }))
}

async fn start_parts(shared: Arc<Shared>) -> Result<Running, Error> {
    let sessions = reach(connect_options(&shared.pool)).await?;
    if shared.config.maintenance_only {
        return start_maintenance(&shared, sessions).await;
    }
    // One connection is the heartbeat's own.
    let pool = sessions.pool(shared.config.connections - 1, ACQUIRE_TIMEOUT, STATEMENT_MAX);
    let started = assemble(&shared, &pool, sessions).await;
    if started.is_err() {
        pool.close().await;
    }
    started
}

/// Maintenance alone: no jobs are claimed, and the process is not in the list of workers.
async fn start_maintenance(shared: &Arc<Shared>, sessions: Sessions) -> Result<Running, Error> {
    let pool = sessions.pool(1, ACQUIRE_TIMEOUT, STATEMENT_MAX);
    let checked = async {
        schema::require_current_schema(&pool).await.map_err(awa_storage::Error::from)?;
        if let Some(declaration) = &shared.declaration {
            schedules::declare(&pool, declaration).await?;
        }
        Ok::<_, Error>(())
    };
    let checked = checked.await;
    pool.close().await;
    checked?;
    let worker = WorkerId::random();
    let (wishes, mut wished) = watch::channel(None);
    let (tell, ended) = watch::channel(Ended::NotYet);
    let mut maintenance = Maintenance::start(&shared.config, worker, sessions);
    tracing::info!(worker.id = %worker.get(), version = VERSION, duties = ?shared.config.duties, "maintenance started");
    tokio::spawn(async move {
        let failed = tokio::select! {
            // An error means that nobody can voice a wish any more, which is one.
            _ = wished.wait_for(Option::is_some) => false,
            () = maintenance.ended() => true,
        };
        maintenance.stop().await;
        tracing::info!(worker.id = %worker.get(), "maintenance ended");
        let orderly = Ended::Orderly(ShutdownReport::default());
        tell.send_replace(if failed { Ended::Failed("maintenance") } else { orderly });
    });
    Ok(Running { worker, wishes, ended })
}

async fn assemble(shared: &Arc<Shared>, pool: &PgPool, sessions: Sessions) -> Result<Running, Error> {
    schema::require_current_schema(pool).await.map_err(awa_storage::Error::from)?;
    if shared.config.listen && sessions.are_shared() {
        tracing::warn!(
            poll_interval = ?shared.config.poll_interval,
            "the database is reached through a pooler that lends sessions for a transaction: no LISTEN, work and \
             cancellations are found by polling and heartbeats alone"
        );
    }
    let worker = WorkerId::random();
    let patience = Patience::default();
    let store = Arc::new(PoolStore { pool: pool.clone(), patience: patience.clone() });
    let (engine, inbox) = engine(shared, pool.clone(), sessions.clone(), worker, patience, store);
    engine.cursors.load(pool).await?;
    if let Some(declaration) = &shared.declaration {
        schedules::declare(pool, declaration).await?;
    }
    let info = worker_info(shared, worker);
    workers::register(pool, &info).await?;
    let (side, listener) = match Side::start(Arc::clone(&engine), info).await {
        Ok(started) => started,
        Err(error) => {
            tracing::error!(%error, "the side thread could not be started");
            let _ = workers::unregister(pool, worker).await;
            return Err(Error::Stopped { part: "side thread" });
        }
    };
    announce(shared, &engine);
    let queues = shared.queues.iter().map(|queue| queue.name.clone()).collect();
    let (wishes, wished) = watch::channel(None);
    let (tell, ended) = watch::channel(Ended::NotYet);
    let maintenance = Maintenance::start(&shared.config, worker, sessions);
    let supervisor = Supervisor::start(engine, inbox, side, maintenance, Sleeper::new(queues, listener));
    tokio::spawn(supervisor.supervise(wished, tell));
    Ok(Running { worker, wishes, ended })
}

/// Connects, and looks at what is there. A pool would go on trying, and hide why it could not.
async fn reach(options: PgConnectOptions) -> Result<Sessions, awa_storage::Error> {
    let probed = tokio::time::timeout(ACQUIRE_TIMEOUT, Sessions::probe(options)).await;
    probed.unwrap_or(Err(sqlx::Error::PoolTimedOut.into()))
}

fn connect_options(pool: &PgPool) -> PgConnectOptions {
    let options: &PgConnectOptions = &pool.connect_options();
    options.clone().application_name(&format!("awa {VERSION}"))
}

/// What all parts share, before any of them runs.
pub(crate) fn engine(
    shared: &Arc<Shared>,
    pool: PgPool,
    sessions: Sessions,
    worker: WorkerId,
    patience: Patience,
    store: Arc<dyn Store>,
) -> (Arc<Engine>, mpsc::UnboundedReceiver<Finished>) {
    let (finished, inbox) = mpsc::unbounded_channel();
    let queues: Vec<_> = shared.queues.iter().map(|queue| queue.name.clone()).collect();
    let services = Services { worker, store, data: shared.registry.data().clone(), runtime: Handle::current() };
    let engine = Engine {
        // Behind a pooler that lends sessions it would listen on somebody else's behalf.
        config: Config { listen: shared.config.listen && !sessions.are_shared(), ..shared.config.clone() },
        worker,
        sessions,
        pool,
        cursors: Cursors::new(worker, &shared.registry.kinds(), &queues),
        registry: Arc::clone(&shared.registry),
        layers: Arc::clone(&shared.layers),
        services: Arc::new(services),
        attempts: Arc::new(Attempts::default()),
        slots: Slots::new(&shared.queues),
        flow: Flow::new(),
        watched: Arc::clone(&shared.watched),
        handlers: TaskTracker::new(),
        finished,
        alone: tokio::sync::Mutex::new(()),
        leftovers: Leftovers::default(),
        ticks: Ticks::default(),
        draining: patience.draining.clone(),
        abandoned: patience.abandoned.clone(),
        patience,
    };
    (Arc::new(engine), inbox)
}

pub(crate) fn worker_info(shared: &Shared, worker: WorkerId) -> WorkerInfo {
    WorkerInfo {
        id: worker,
        name: shared.config.name.clone().unwrap_or_else(program_name),
        host: host_name(),
        pid: i32::try_from(std::process::id()).unwrap_or_default(),
        version: VERSION.to_owned(),
        queues: shared.queues.iter().map(|queue| queue.name.to_string()).collect(),
        kinds: shared.registry.kinds().iter().map(ToString::to_string).collect(),
    }
}

fn program_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "awa".to_owned())
}

/// For people only, so the usual places will do.
fn host_name() -> String {
    let read = || std::fs::read_to_string("/etc/hostname").ok().map(|name| name.trim().to_owned());
    std::env::var("HOSTNAME").ok().or_else(read).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

fn announce(shared: &Shared, engine: &Engine) {
    let config = &shared.config;
    let queues: Vec<_> = shared.queues.iter().map(|queue| format!("{}:{}", queue.name, queue.max_workers)).collect();
    let maintenance = if config.maintenance { awa_maintenance::CONNECTIONS } else { 0 };
    tracing::info!(
        worker.id = %engine.worker.get(),
        version = VERSION,
        queues = queues.join(" "),
        kinds = shared.registry.kinds().len(),
        connections = config.connections + u32::from(engine.config.listen) + maintenance,
        heartbeat_interval = ?config.heartbeat_interval,
        stale_after = ?config.stale_after,
        lost_lease_noticed_within = ?heartbeat::notice_max(config.heartbeat_interval),
        poll_interval = ?config.poll_interval,
        maintenance = config.maintenance,
        "worker started"
    );
}

/// Owns the parts of a worker.
struct Supervisor {
    engine: Arc<Engine>,
    side: Side,
    maintenance: Maintenance,
    finalizer: JoinHandle<()>,
    finalizer_stop: CancellationToken,
    looker: JoinHandle<()>,
    dispatcher: JoinHandle<()>,
}

impl Supervisor {
    fn start(
        engine: Arc<Engine>,
        inbox: mpsc::UnboundedReceiver<Finished>,
        side: Side,
        maintenance: Maintenance,
        sleeper: Sleeper,
    ) -> Self {
        let finalizer_stop = CancellationToken::new();
        Self {
            maintenance,
            finalizer: tokio::spawn(finalizer::run(Arc::clone(&engine), inbox, finalizer_stop.clone())),
            looker: tokio::spawn(looker::run(Arc::clone(&engine))),
            dispatcher: tokio::spawn(dispatcher::run(Arc::clone(&engine), sleeper)),
            engine,
            side,
            finalizer_stop,
        }
    }

    async fn supervise(mut self, mut wishes: watch::Receiver<Wish>, tell: watch::Sender<Ended>) {
        let failed = tokio::select! {
            // An error means that nobody can voice a wish any more, which is one.
            _ = wishes.wait_for(Option::is_some) => None,
            _ = &mut self.finalizer => Some("finalizer"),
            _ = &mut self.looker => Some("looker"),
            _ = &mut self.dispatcher => Some("dispatcher"),
            () = self.side.ended() => Some("side thread"),
        };
        if let Some(part) = failed {
            tracing::error!(part, "a part of the worker ended unasked: shutting down");
        }
        let report = self.take_down(failed, &mut wishes).await;
        tell.send_replace(failed.map_or(Ended::Orderly(report), Ended::Failed));
    }

    /// The steps of [`shutdown`](crate::shutdown). A part that `failed` is not waited for.
    async fn take_down(self, failed: Option<&str>, wishes: &mut watch::Receiver<Wish>) -> ShutdownReport {
        let engine = self.engine;
        tracing::info!(worker.id = %engine.worker.get(), held = engine.attempts.len(), "shutting down: handlers may finish");
        engine.draining.cancel();
        let claiming = async {
            for (part, task) in [("dispatcher", self.dispatcher), ("looker", self.looker)] {
                if failed != Some(part) {
                    let _ = task.await;
                }
            }
        };
        // A claim that hangs, or a sweep, must not keep handlers from hearing that their time is over.
        tokio::join!(claiming, self.maintenance.stop(), shutdown::drain(&engine, wishes));
        shutdown::settle(&engine).await;
        self.finalizer_stop.cancel();
        if failed != Some("finalizer") {
            let _ = self.finalizer.await;
        }
        self.side.stop().await;
        let goodbye = async {
            if workers::unregister(&engine.pool, engine.worker).await.is_err() {
                return false;
            }
            engine.pool.close().await;
            true
        };
        if !tokio::time::timeout(GOODBYE_MAX, goodbye).await.unwrap_or(false) {
            tracing::warn!("this process could not take its leave of the database: it will be forgotten in time");
        }
        let report = engine.leftovers.report();
        tracing::info!(
            worker.id = %engine.worker.get(),
            returned = report.returned,
            left_to_rescue = report.left_to_rescue,
            "worker ended"
        );
        report
    }
}
