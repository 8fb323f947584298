//! Awa as it is in this repository, through `awa-worker`.

use std::process::ExitCode;

use awa_peer::{Payload, Peer, QUEUE, Result, Seen, Settings, Setup};
use awa_worker::sqlx::PgPool;
use awa_worker::{Client, Data, JobArgs, JobError, NewJob, QueueConfig};
use serde::{Deserialize, Serialize};

/// Jobs that a process holds at once.
const WORKERS: usize = 1024;

#[derive(Serialize, Deserialize, JobArgs)]
#[job(kind = "noop")]
#[serde(transparent)]
struct Noop(Payload);

async fn noop(job: Noop, seen: Data<Seen>) -> std::result::Result<(), JobError> {
    seen.started(job.0.sent_us);
    Ok(())
}

struct Awa {
    producer: PgPool,
    setup: Setup,
}

impl Peer for Awa {
    const NAME: &'static str = "awa";
    const VERSION: &'static str = "this commit";
    const LEFT: &'static str = "select (select count(*) from awa.jobs_hot where state <> 'completed')
        + (select count(*) from awa.scheduled_jobs)";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "max_workers 1,024; batches by enqueue_copy",
            Settings::Defaults => "max_workers 16; batches by enqueue_many",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let producer = PgPool::connect(&setup.url).await?;
        awa_worker::migrate(&producer).await?;
        Ok(Self { producer, setup })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        awa_worker::enqueue(&self.producer, NewJob::new(&Noop(payload)).queue(QUEUE)).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        let jobs: Vec<Noop> = payloads.into_iter().map(Noop).collect();
        let jobs = jobs.iter().map(|job| NewJob::new(job).queue(QUEUE));
        if self.setup.best() {
            let mut connection = self.producer.acquire().await?;
            awa_worker::enqueue_copy(&mut connection, jobs).await?;
        } else {
            awa_worker::enqueue_many(&self.producer, jobs).await?;
        }
        Ok(())
    }

    async fn start(&self) -> Result {
        let queue = if self.setup.best() { QueueConfig::new().max_workers(WORKERS) } else { QueueConfig::new() };
        let client = Client::builder(PgPool::connect(&self.setup.url).await?)
            .queue(QUEUE, queue)
            .data(self.setup.seen.clone())
            .register(noop)
            .build()?;
        // Dropped, it would stop.
        std::mem::forget(client.start().await?);
        Ok(())
    }
}

fn main() -> ExitCode {
    awa_peer::run::<Awa>()
}
