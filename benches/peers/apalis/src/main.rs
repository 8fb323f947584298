//! apalis with its PostgreSQL backend.

use std::process::ExitCode;
use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage, queries};
use awa_peer::{Payload, Peer, QUEUE, Result, Seen, Settings, Setup};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

struct Apalis {
    setup: Setup,
    producer: PgPool,
}

async fn noop(job: Payload, seen: Data<Seen>) -> std::result::Result<(), BoxDynError> {
    seen.started(job.sent_us);
    Ok(())
}

impl Apalis {
    async fn push(&self, payloads: Vec<Payload>) -> Result {
        let build = |payload| Ok(TaskBuilder::new(serde_json::to_vec(&payload)?).build());
        let tasks = payloads.into_iter().map(build).collect::<Result<Vec<_>>>()?;
        let mut connection = self.producer.acquire().await?;
        queries::push_tasks(&mut *connection, QUEUE, tasks).await?;
        Ok(())
    }
}

impl Peer for Apalis {
    const NAME: &'static str = "apalis-postgres";
    const VERSION: &'static str = "1.0.0";
    const LEFT: &'static str = "select count(*) from apalis.jobs where status <> 'Done'";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "LISTEN, batch_size 500, lock_tasks off, concurrency 200, poll 50 ms, pool 20",
            Settings::Defaults => "LISTEN, poll 5 s as in its README, pool 10",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let producer = PgPool::connect(&setup.url).await?;
        PostgresStorage::setup(&producer).await?;
        Ok(Self { setup, producer })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        self.push(vec![payload]).await
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        self.push(payloads).await
    }

    async fn start(&self) -> Result {
        let best = self.setup.best();
        let pool = PgPoolOptions::new().max_connections(if best { 20 } else { 10 }).connect(&self.setup.url).await?;
        let config = Config::default().queue(QUEUE);
        let config = if best { config.batch_size(500).lock_tasks(false) } else { config };
        let poll = if best { Duration::from_millis(50) } else { Duration::from_secs(5) };
        let storage = PostgresStorage::<Payload>::new(&pool).with_config(config);
        let backend = storage.with_pubsub().poll_with_interval(poll);
        let worker = WorkerBuilder::new("bench").backend(backend).data(self.setup.seen.clone());
        if best {
            let worker = worker.concurrency(200).build(noop);
            tokio::spawn(async move { told(worker.run().await) });
        } else {
            let worker = worker.build(noop);
            tokio::spawn(async move { told(worker.run().await) });
        }
        Ok(())
    }
}

fn told<E: std::fmt::Debug>(ended: std::result::Result<(), E>) {
    if let Err(error) = ended {
        eprintln!("worker: {error:?}");
    }
}

fn main() -> ExitCode {
    awa_peer::run::<Apalis>()
}
