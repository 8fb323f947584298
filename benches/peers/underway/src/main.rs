//! underway, by its `Task`: the handler gets a transaction and commits it.

use std::process::ExitCode;

use awa_peer::{Payload, Peer, QUEUE, Result, Seen, Settings, Setup};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};
use underway::{Queue, Task, Worker, task};

/// Jobs that a process runs at once. Each holds a connection.
const WORKERS: u32 = 32;

#[derive(Clone)]
struct Noop(Seen);

impl Task for Noop {
    type Input = Payload;
    type Output = ();

    async fn execute(&self, tx: Transaction<'_, Postgres>, input: Payload) -> task::Result<()> {
        self.0.started(input.sent_us);
        tx.commit().await.map_err(|error| task::Error::Retryable(error.to_string()))
    }
}

struct Underway {
    setup: Setup,
    pool: PgPool,
    queue: Queue<Noop>,
    task: Noop,
}

async fn queue(pool: &PgPool) -> Result<Queue<Noop>> {
    Ok(Queue::builder().name(QUEUE).pool(pool.clone()).build().await?)
}

impl Peer for Underway {
    const NAME: &'static str = "underway";
    const VERSION: &'static str = "0.2.0";
    const LEFT: &'static str = "select count(*) from underway.task where state <> 'succeeded'";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "concurrency 32, pool 40; batches by enqueue_multi",
            Settings::Defaults => "concurrency: processors, pool 10; batches by enqueue_multi",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let pool = PgPool::connect(&setup.url).await?;
        underway::run_migrations(&pool).await?;
        let (queue, task) = (queue(&pool).await?, Noop(setup.seen.clone()));
        Ok(Self { setup, pool, queue, task })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        self.queue.enqueue(&self.pool, &self.task, &payload).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        self.queue.enqueue_multi(&self.pool, &self.task, &payloads).await?;
        Ok(())
    }

    async fn start(&self) -> Result {
        let best = self.setup.best();
        let pool =
            PgPoolOptions::new().max_connections(if best { WORKERS + 8 } else { 10 }).connect(&self.setup.url).await?;
        let mut worker = Worker::new(queue(&pool).await?.into(), self.task.clone());
        if best {
            worker.set_concurrency_limit(WORKERS as usize);
        }
        tokio::spawn(async move {
            if let Err(error) = worker.run().await {
                eprintln!("worker: {error}");
            }
        });
        Ok(())
    }
}

fn main() -> ExitCode {
    awa_peer::run::<Underway>()
}
