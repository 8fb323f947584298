//! sqlxmq. Its migrations are made to be copied into a service's own; here they are read from its source.

use std::error::Error;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::{fs, io};

use awa_peer::{Payload, Peer, Result, Seen, Settings, Setup};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use sqlxmq::{CurrentJob, JobRegistry, JobRunnerHandle, job};

/// Handlers take no captured values, so what they report to is here.
static SEEN: OnceLock<Seen> = OnceLock::new();
/// A runner that is dropped stops.
static RUNNER: OnceLock<JobRunnerHandle> = OnceLock::new();

#[job(channel_name = "bench")]
async fn noop(mut job: CurrentJob) -> std::result::Result<(), Box<dyn Error + Send + Sync + 'static>> {
    let payload: Option<Payload> = job.json()?;
    if let (Some(seen), Some(payload)) = (SEEN.get(), payload) {
        seen.started(payload.sent_us);
    }
    job.complete().await?;
    Ok(())
}

struct Sqlxmq {
    setup: Setup,
    producer: PgPool,
}

impl Peer for Sqlxmq {
    const NAME: &'static str = "sqlxmq";
    const VERSION: &'static str = "0.6.0";
    // One row is always there.
    const LEFT: &'static str = "select count(*) from mq_msgs where id <> '00000000-0000-0000-0000-000000000000'";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "concurrency 100 to 200, pool 20; batches by many spawns in one transaction",
            Settings::Defaults => "concurrency 16 to 32, pool 10; batches by many spawns in one transaction",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let _ = SEEN.set(setup.seen.clone());
        let producer = PgPool::connect(&setup.url).await?;
        for statements in migrations()? {
            sqlx::raw_sql(&statements).execute(&producer).await?;
        }
        Ok(Self { setup, producer })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        noop.builder().set_json(&payload)?.spawn(&self.producer).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        let mut tx = self.producer.begin().await?;
        for payload in payloads {
            noop.builder().set_json(&payload)?.spawn(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(())
    }

    async fn start(&self) -> Result {
        let best = self.setup.best();
        let pool = PgPoolOptions::new().max_connections(if best { 20 } else { 10 }).connect(&self.setup.url).await?;
        let mut runner = JobRegistry::new(&[noop]).runner(&pool);
        if best {
            runner.set_concurrency(100, 200);
        }
        let _ = RUNNER.set(runner.run().await?);
        Ok(())
    }
}

/// The migrations of sqlxmq, in order.
fn migrations() -> Result<Vec<String>> {
    let files = fs::read_dir(env!("SQLXMQ_MIGRATIONS"))?;
    let mut paths = files.map(|file| Ok(file?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.to_string_lossy().ends_with(".up.sql"));
    paths.sort();
    Ok(paths.iter().map(fs::read_to_string).collect::<io::Result<_>>()?)
}

fn main() -> ExitCode {
    awa_peer::run::<Sqlxmq>()
}
