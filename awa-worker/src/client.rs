//! The client: enqueues jobs, and runs them if it has handlers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use awa_maintenance::{DutyName, Ticked};
use awa_model::{Inserted, IntoNewJob, JobId};
use awa_storage::admin::Operated;
use awa_storage::schedule::Declaration;
use sqlx::{PgConnection, PgExecutor, PgPool};

use crate::config::{BuildError, Config, Mistake, QueueConfig, ServedQueue, check_queues};
use crate::enqueue;
use crate::failure::Error;
use crate::handler::Handler;
use crate::leftovers::ShutdownReport;
use crate::maintenance;
use crate::middleware::{self, Layers, Middleware, Write};
use crate::registry::Registry;
use crate::runtime::{self, Running};
use crate::schedules::Declared;
use crate::shutdown::Shutdown;
use crate::signal;
use crate::watched::Watched;

/// Enqueues jobs and runs them. Cheap to clone.
///
/// A client without handlers is a producer only. The pool serves [`Client::enqueue`]; a running worker opens connections
/// of its own with the same options, so that handlers which use the pool cannot starve it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What clones of a client share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) pool: PgPool,
    pub(crate) config: Config,
    pub(crate) queues: Vec<ServedQueue>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) layers: Layers,
    pub(crate) declaration: Option<Declaration>,
}

impl Client {
    /// Starts putting a client together.
    pub fn builder(pool: PgPool) -> ClientBuilder {
        let (config, registry) = (Config::default(), Registry::default());
        let declared = Declared::default();
        ClientBuilder { pool, config, queues: Vec::new(), registry, layers: Vec::new(), declared }
    }

    /// Starts putting a client together that does maintenance and runs no jobs: for a process of its own, beside workers that are
    /// built [`without_maintenance`](ClientBuilder::without_maintenance) or not. Give it the fleet's `heartbeat_interval`,
    /// `stale_after` and `cancel_grace`.
    ///
    /// ```no_run
    /// # async fn run(pool: sqlx::PgPool) -> Result<(), awa_worker::Error> {
    /// let maintenance = awa_worker::Client::maintenance_only(pool).build()?;
    /// maintenance.run_until(awa_worker::shutdown_signal()).await?;
    /// # Ok(()) }
    /// ```
    pub fn maintenance_only(pool: PgPool) -> ClientBuilder {
        let mut builder = Self::builder(pool);
        builder.config.maintenance_only = true;
        builder
    }

    /// Enqueues one job through the client's pool, in a transaction of its own.
    ///
    /// # Errors
    /// As [`enqueue`](crate::enqueue).
    pub async fn enqueue<J: IntoNewJob>(&self, job: J) -> Result<Inserted<J::Args>, Error> {
        self.enqueue_in(&self.shared.pool, job).await
    }

    /// Enqueues one job on the caller's connection: `client.enqueue_in(&mut *tx, &job)`. It exists if and only if the
    /// caller's transaction commits.
    ///
    /// # Errors
    /// As [`enqueue`](crate::enqueue).
    pub async fn enqueue_in<J: IntoNewJob>(&self, db: impl PgExecutor<'_>, job: J) -> Result<Inserted<J::Args>, Error> {
        if self.shared.layers.is_empty() {
            return enqueue::enqueue(db, job).await;
        }
        let jobs = vec![job.into_new_job().prepare()?];
        let write: Write<'_> = Box::new(|jobs| {
            Box::pin(async move {
                let job = jobs.first().expect("middleware takes no job away");
                Ok(vec![awa_storage::enqueue::enqueue(db, job).await?])
            })
        });
        let mut answers = middleware::enqueue(&self.shared.layers, jobs, write).await?;
        Ok(answers.pop().expect("one answer for each job").assume())
    }

    /// Enqueues many jobs with one statement through the client's pool. Answers in the order given.
    ///
    /// # Errors
    /// As [`enqueue_many`](crate::enqueue_many).
    pub async fn enqueue_many<J: IntoNewJob>(
        &self,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Inserted<J::Args>>, Error> {
        let pool = &self.shared.pool;
        if self.shared.layers.is_empty() {
            return enqueue::enqueue_many(pool, jobs).await;
        }
        let jobs = enqueue::prepare(jobs)?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let write: Write<'_> =
            Box::new(move |jobs| Box::pin(async move { Ok(awa_storage::enqueue::enqueue_many(pool, &jobs).await?) }));
        let answers = middleware::enqueue(&self.shared.layers, jobs, write).await?;
        Ok(answers.into_iter().map(Inserted::assume).collect())
    }

    /// Enqueues very many jobs by COPY on the caller's connection. Answers in the order given.
    ///
    /// # Errors
    /// As [`enqueue_copy`](crate::enqueue_copy), which also says what dropping the future does.
    pub async fn enqueue_copy<J: IntoNewJob>(
        &self,
        connection: &mut PgConnection,
        jobs: impl IntoIterator<Item = J>,
    ) -> Result<Vec<Inserted<J::Args>>, Error> {
        if self.shared.layers.is_empty() {
            return enqueue::enqueue_copy(connection, jobs).await;
        }
        let jobs = enqueue::prepare(jobs)?;
        let write: Write<'_> = Box::new(move |jobs| {
            Box::pin(async move { Ok(awa_storage::enqueue::enqueue_copy(connection, &jobs).await?) })
        });
        let answers = middleware::enqueue(&self.shared.layers, jobs, write).await?;
        Ok(answers.into_iter().map(Inserted::assume).collect())
    }

    /// The job that holds the unique key of such a job (args, or a [`NewJob`](crate::NewJob) with a rule of its own), if there
    /// is one. It may have changed when the answer arrives.
    ///
    /// # Errors
    /// As [`enqueue`](crate::enqueue).
    pub async fn find_unique<J: IntoNewJob>(&self, job: J) -> Result<Option<JobId<J::Args>>, Error> {
        let job = job.into_new_job().prepare()?;
        Ok(awa_storage::unique::find(&self.shared.pool, &job).await?.map(JobId::assume))
    }

    /// Calls off whichever job holds the unique key of such a job, noting the reason among its errors. `None` where nobody
    /// holds it.
    ///
    /// # Errors
    /// As [`enqueue`](crate::enqueue).
    pub async fn cancel_unique<J: IntoNewJob>(
        &self,
        job: J,
        reason: Option<&str>,
    ) -> Result<Option<(JobId<J::Args>, Operated)>, Error> {
        let job = job.into_new_job().prepare()?;
        let answer = awa_storage::unique::cancel(&self.shared.pool, &job, reason).await?;
        Ok(answer.map(|(id, operated)| (id.assume(), operated)))
    }

    #[cfg(feature = "testing")]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn declaration(&self) -> Option<&Declaration> {
        self.shared.declaration.as_ref()
    }

    pub(crate) fn watched(&self) -> &Arc<Watched> {
        &self.shared.watched
    }

    /// The pool that the client was built with.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.shared.pool
    }

    /// The silence after which a worker or an attempt is taken for dead.
    pub(crate) fn stale_after(&self) -> Duration {
        self.shared.config.stale_after
    }

    /// Starts to run jobs. Each start is a worker process of its own to the rest of the fleet, with its own id.
    ///
    /// Opens the configured number of connections with the pool's options, and one more to listen for wake-ups.
    ///
    /// # Errors
    /// [`Error::NothingToRun`] without handlers, [`Error::Storage`] if the database cannot be reached or its schema is not
    /// the one that this version needs. Nothing is left running then, and starting again is fine.
    pub async fn start(&self) -> Result<Running, Error> {
        runtime::start(&self.shared).await
    }

    /// Does maintenance once: every duty until it has nothing more to do or `budget` is over. For services whose processes come and
    /// go, like functions that a timer starts; others do it while they run. Harmless beside them.
    ///
    /// Opens connections of its own for that time. Dropping the future does not end it before the budget is over.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database cannot be reached. What a duty meets is in its own [`Ticked`].
    pub async fn tick(&self, budget: Duration) -> Result<Vec<Ticked>, Error> {
        runtime::tick(&self.shared, budget).await
    }

    /// Runs jobs until `stop` resolves, then drains for the configured time. `stop` is polled before anything is started; should it
    /// resolve while the worker starts, that is finished first.
    ///
    /// With [`shutdown_signal`](crate::shutdown_signal) as `stop`, or anything that waits for it, a second signal while the
    /// worker drains turns the drain into [`Shutdown::Now`].
    ///
    /// Dropping this future asks running handlers to stop, as dropping [`Running`] does.
    ///
    /// # Errors
    /// As [`Client::start`], and [`Error::Stopped`] if a part of the worker fails.
    pub async fn run_until(&self, stop: impl Future<Output = ()>) -> Result<ShutdownReport, Error> {
        // Polled from the very beginning: a signal that comes while the worker starts is heard, and ends it in order too.
        let (starting, stopping) = (self.start(), stop);
        tokio::pin!(starting, stopping);
        let (running, stopped) = tokio::select! {
            biased;
            () = &mut stopping => (starting.await?, true),
            started = &mut starting => (started?, false),
        };
        if !stopped {
            tokio::select! {
                () = &mut stopping => {}
                ended = running.ended() => return ended,
            }
        }
        let draining = running.shutdown(Shutdown::Drain { timeout: self.shared.config.drain_timeout });
        tokio::pin!(draining);
        tokio::select! {
            report = &mut draining => return report,
            () = signal::another() => tracing::info!("asked again to stop: running handlers are asked to stop too"),
        }
        let (report, _) = tokio::join!(draining, running.shutdown(Shutdown::Now));
        report
    }
}

#[cfg(feature = "testing")]
impl Shared {
    /// The same, serving one queue alone.
    pub(crate) fn serving(&self, queue: ServedQueue) -> Self {
        Self { queues: vec![queue], ..self.clone() }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("queues", &self.shared.queues).finish_non_exhaustive()
    }
}

/// Puts a client together. Nothing is checked before [`ClientBuilder::build`], which reports all mistakes at once.
#[must_use = "nothing happens before `build`"]
pub struct ClientBuilder {
    pool: PgPool,
    config: Config,
    queues: Vec<(String, QueueConfig)>,
    registry: Registry,
    layers: Vec<Arc<dyn Middleware>>,
    pub(crate) declared: Declared,
}

impl ClientBuilder {
    /// Serves a queue. A client with handlers and no queue serves `default`.
    pub fn queue(mut self, name: impl Into<String>, config: QueueConfig) -> Self {
        self.queues.push((name.into(), config));
        self
    }

    /// Registers the handler of a kind: an async fn, a closure, or a [`Worker`](crate::Worker). One for each kind.
    pub fn register<H, Marker: 'static>(mut self, handler: H) -> Self
    where
        H: Handler<Marker>,
    {
        self.registry.register(handler);
        self
    }

    /// Gives handlers a value, which they take as [`Data<T>`](crate::Data). One for each type.
    pub fn data<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.registry.share(value);
        self
    }

    /// Puts a middleware around the running of jobs and around what the client enqueues. May be given several times: the
    /// first is the outermost.
    pub fn middleware(mut self, middleware: impl Middleware) -> Self {
        self.layers.push(Arc::new(middleware));
        self
    }

    /// A name for people, shown in the list of workers; by default the name of the program. Ownership never goes by it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = Some(name.into());
        self
    }

    /// The time between two signs of life, of the process and of each attempt; also how soon a handler learns that its
    /// lease is lost, and how old stored progress may be. Default 30 s, 100 ms to 1 h, at most a third of
    /// [`Self::stale_after`].
    pub fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.heartbeat_interval = interval;
        self
    }

    /// The time without a sign of life after which an attempt counts as dead and its job is tried again. Default 90 s, at
    /// least three heartbeat intervals. Whichever process leads applies its own setting to the whole fleet: give all the
    /// same.
    pub fn stale_after(mut self, age: Duration) -> Self {
        self.config.stale_after = age;
        self
    }

    /// How long [`Client::run_until`] lets running jobs finish at the end. Default 30 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.config.drain_timeout = timeout;
        self
    }

    /// How long a handler that is asked to stop may take to return: after a timeout or a shutdown its attempt is then ended
    /// without it, and in any case the log names it. Default 5 s, at most a day.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.config.cancel_grace = grace;
        self
    }

    /// How often an idle worker asks for work that no wake-up announced, lengthened by up to a half at random. Default 500 ms,
    /// 10 ms to 1 h.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.config.poll_interval = interval;
        self
    }

    /// Connections that a running worker opens to claim and settle, one of which sends nothing but heartbeats. Listening
    /// takes one more, maintenance three while this process leads and one otherwise. Default 4, at least 2.
    pub fn connections(mut self, connections: u32) -> Self {
        self.config.connections = connections;
        self
    }

    /// Jobs that one claim may take, over all queues. Default 512, 1 to 4096.
    pub fn claim_batch_max(mut self, jobs: usize) -> Self {
        self.config.claim_batch_max = jobs;
        self
    }

    /// Outcomes that one statement may write. Default 512, 1 to 4096.
    pub fn settle_batch_max(mut self, outcomes: usize) -> Self {
        self.config.settle_batch_max = outcomes;
        self
    }

    /// How long an outcome that the database refuses is tried before it is given up: the job then gets no more heartbeats
    /// and is tried again once it is stale. Default 30 s.
    pub fn settle_give_up_after(mut self, age: Duration) -> Self {
        self.config.settle_give_up_after = age;
        self
    }

    /// Size that the progress of one job may reach, as JSON. Default 64 KiB.
    pub fn progress_bytes_max(mut self, bytes: usize) -> Self {
        self.config.progress_bytes_max = bytes;
        self
    }

    /// Works by polling alone, without LISTEN: for connections through a pooler that hands out a connection for each
    /// transaction.
    pub fn without_listen(mut self) -> Self {
        self.config.listen = false;
        self
    }

    /// Takes no part in maintenance (promotion, rescue, rotation, retention). Some process of the fleet has to.
    pub fn without_maintenance(mut self) -> Self {
        self.config.maintenance = false;
        self
    }

    /// Leaves out one duty of maintenance while this process leads. Another process has to do it, and nobody does while this one
    /// leads: leave it out everywhere, and call [`Client::tick`] or run [`Client::maintenance_only`] for it.
    pub fn without_duty(mut self, duty: DutyName) -> Self {
        self.config.duties = self.config.duties.without(duty);
        self
    }

    /// Checks everything and makes the client. Opens no connection.
    ///
    /// # Errors
    /// All mistakes together: settings that do not fit, a kind registered twice, a [`Data<T>`](crate::Data) that a handler
    /// needs and nobody gave, names that no queue or kind can have.
    pub fn build(mut self) -> Result<Client, Error> {
        let mut mistakes = self.config.mistakes();
        if self.config.maintenance && mistakes.is_empty() {
            let broken = maintenance::settings(&self.config).validate().err().unwrap_or_default();
            mistakes.extend(broken.into_iter().map(|rule| Mistake::Maintenance { rule }));
        }
        mistakes.extend(self.registry.mistakes());
        let runs_jobs = !self.registry.is_empty() || !self.queues.is_empty();
        if self.config.maintenance_only && (runs_jobs || !self.config.maintenance) {
            mistakes.push(Mistake::MaintenanceOnly);
        } else if self.registry.is_empty() && runs_jobs {
            mistakes.push(Mistake::NoHandlers);
        }
        if !self.registry.is_empty() && self.queues.is_empty() {
            self.queues.push((awa_model::limits::QUEUE_DEFAULT.to_owned(), QueueConfig::new()));
        }
        let (queues, wrong) = check_queues(&self.queues);
        mistakes.extend(wrong);
        let declaration = self.declared.check().unwrap_or_else(|wrong| {
            mistakes.extend(wrong);
            None
        });
        BuildError::unless_empty(mistakes)?;
        let registry = Arc::new(self.registry);
        let watched = Watched::new(self.pool.clone());
        let layers = self.layers.into();
        let shared = Shared { pool: self.pool, config: self.config, queues, registry, watched, layers, declaration };
        Ok(Client { shared: Arc::new(shared) })
    }
}

impl std::fmt::Debug for ClientBuilder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ClientBuilder").field("queues", &self.queues).finish_non_exhaustive()
    }
}
