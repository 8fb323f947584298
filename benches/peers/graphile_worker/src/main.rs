//! `graphile_worker`, the port of graphile-worker to Rust.

use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Duration;

use awa_peer::{Payload, Peer, Result, Seen, Settings, Setup};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

/// Handlers take no captured values, so what they report to is here.
static SEEN: OnceLock<Seen> = OnceLock::new();

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Noop(Payload);

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = awa_peer::KIND;

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(seen) = SEEN.get() {
            seen.started(self.0.sent_us);
        }
        Ok::<(), String>(())
    }
}

struct Graphile {
    setup: Setup,
    producer: WorkerUtils,
}

fn options(pool: PgPool) -> WorkerOptions {
    WorkerOptions::default().pg_pool(pool).schema("graphile_worker").define_job::<Noop>()
}

impl Peer for Graphile {
    const NAME: &'static str = "graphile_worker (Rust)";
    const VERSION: &'static str = "0.14.1";
    const LEFT: &'static str = "select count(*) from graphile_worker._private_jobs";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "concurrency 500, local queue 1,000, complete_job_batch_delay 5 ms, poll 100 ms, pool 20",
            Settings::Defaults => "concurrency: processors, poll 1 s, pool 10",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let _ = SEEN.set(setup.seen.clone());
        let producer = options(PgPool::connect(&setup.url).await?).init().await?.create_utils();
        Ok(Self { setup, producer })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        self.producer.add_job(Noop(payload), JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        let spec = JobSpec::default();
        let jobs: Vec<_> = payloads.into_iter().map(|payload| (Noop(payload), &spec)).collect();
        self.producer.add_jobs(&jobs).await?;
        Ok(())
    }

    async fn start(&self) -> Result {
        let best = self.setup.best();
        let pool = PgPoolOptions::new().max_connections(if best { 20 } else { 10 }).connect(&self.setup.url).await?;
        let mut options = options(pool);
        if best {
            options = options
                .concurrency(500)
                .poll_interval(Duration::from_millis(100))
                .complete_job_batch_delay(Duration::from_millis(5))
                .local_queue(LocalQueueConfig::default().with_size(1000));
        }
        let worker = options.init().await?;
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("worker: {error}");
            }
        });
        Ok(())
    }
}

fn main() -> ExitCode {
    awa_peer::run::<Graphile>()
}
