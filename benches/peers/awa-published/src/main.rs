//! The `awa` that is published, an unrelated project of the same name and the nearest in aim.

use std::process::ExitCode;
use std::time::Duration;

use awa_peer::{KIND, Payload, Peer, QUEUE, Result, Seen, Settings, Setup};
use awa_published::{Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig};
use awa_published::{QueueStorage, QueueStorageConfig};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::OnceCell;

/// Jobs that a process holds at once.
const WORKERS: u32 = 1024;

#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Noop(Payload);

impl JobArgs for Noop {
    fn kind() -> &'static str {
        KIND
    }
}

struct Published {
    setup: Setup,
    producer: PgPool,
    storage: QueueStorage,
    worker: OnceCell<Client>,
}

impl Published {
    fn client(pool: PgPool, seen: Seen, best: bool) -> Result<Client> {
        let queue = if best {
            QueueConfig {
                max_workers: WORKERS,
                claim_batch_size: 512,
                deadline_duration: Duration::ZERO,
                poll_interval: Duration::from_millis(50),
                ..QueueConfig::default()
            }
        } else {
            QueueConfig::default()
        };
        let handler = move |job: Noop, _: &_| {
            seen.started(job.0.sent_us);
            async { Ok(JobResult::Completed) }
        };
        Ok(Client::builder(pool).queue(QUEUE, queue).register::<Noop, _, _>(handler).build()?)
    }
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.to_owned(), ..InsertOpts::default() }
}

impl Peer for Published {
    const NAME: &'static str = "awa (the registry)";
    const VERSION: &'static str = "0.6.9";
    // The view `awa.jobs` takes tens of seconds at some ten thousand jobs, and `queue_counts` takes some. Its storage is
    // append-only: what was enqueued less what has ended, which is in one of two places. Both are emptied together.
    const LEFT: &'static str = "select (select count(*) from awa.ready_entries)
        - (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)
        - (select count(*) from awa.done_entries)";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => {
                "max_workers 1,024, claim_batch_size 512, no deadline, poll 50 ms, pool 20; batches by enqueue_params_copy"
            }
            Settings::Defaults => "QueueConfig::default() (max_workers 50), pool 10; batches by insert_many",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let producer = PgPool::connect(&setup.url).await?;
        awa_published::migrations::run(&producer).await?;
        // The first worker of a fresh database makes queue storage the active engine. A job that was enqueued before it
        // would lie in the older one, so one comes and goes first.
        let first = Self::client(producer.clone(), setup.seen.clone(), setup.best())?;
        first.start().await?;
        first.shutdown(Duration::from_secs(5)).await;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        Ok(Self { setup, producer, storage, worker: OnceCell::new() })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        awa_published::insert_with(&self.producer, &Noop(payload), options()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        let prepare = |payload| awa_published::model::insert::params_with(&Noop(payload), options());
        let jobs = payloads.into_iter().map(prepare).collect::<std::result::Result<Vec<InsertParams>, _>>()?;
        if self.setup.best() {
            self.storage.enqueue_params_copy(&self.producer, &jobs).await?;
        } else {
            awa_published::insert_many(&self.producer, &jobs).await?;
        }
        Ok(())
    }

    async fn start(&self) -> Result {
        let connections = if self.setup.best() { 20 } else { 10 };
        let pool = PgPoolOptions::new().max_connections(connections).connect(&self.setup.url).await?;
        let client = Self::client(pool, self.setup.seen.clone(), self.setup.best())?;
        client.start().await?;
        // Dropped, it would stop.
        let _ = self.worker.set(client);
        Ok(())
    }
}

fn main() -> ExitCode {
    awa_peer::run::<Published>()
}
