//! River for Rust.

use std::process::ExitCode;
use std::time::Duration;

use awa_peer::{Payload, Peer, Result, Settings, Setup};
use riverqueue::migrate::PostgresMigrator;
use riverqueue::sqlx::PgPool;
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::{BoxError, Client, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers};
use serde::{Deserialize, Serialize};

/// Where jobs go that name no queue.
const QUEUE: &str = "default";
/// Jobs that a process runs at once: the best settings, and what the README's first example uses.
const WORKERS: [usize; 2] = [500, 100];

#[derive(Clone, Debug, Serialize, Deserialize, JobArgs)]
#[river(kind = "noop")]
struct Noop {
    work: Payload,
}

struct River {
    setup: Setup,
    producer: Client,
}

fn cooldown(setup: &Setup) -> Duration {
    if setup.best() { Duration::from_millis(5) } else { riverqueue::FETCH_COOLDOWN_DEFAULT }
}

impl Peer for River {
    const NAME: &'static str = "riverqueue";
    const VERSION: &'static str = "0.5.0";
    const LEFT: &'static str = "select count(*) from river_job where state <> 'completed'";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "500 workers, fetch cooldown 5 ms, poll 100 ms, pool 20",
            Settings::Defaults => "100 workers (has no default), pool 10",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let pool = PgPool::connect(&setup.url).await?;
        PostgresMigrator::new(pool.clone()).migrate_up().await?;
        let producer = Client::builder(pool).fetch_cooldown(cooldown(&setup)).build()?;
        Ok(Self { setup, producer })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        self.producer.insert(Noop { work: payload }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        self.producer.insert_many(payloads.into_iter().map(|work| Noop { work })).await?;
        Ok(())
    }

    async fn start(&self) -> Result {
        let seen = self.setup.seen.clone();
        let mut workers = Workers::new();
        workers.add_fn(move |_: WorkContext, job: Job<Noop>| {
            seen.started(job.args.work.sent_us);
            async { Ok::<_, BoxError>(WorkOutcome::Complete) }
        })?;
        let best = self.setup.best();
        let pool = PgPoolOptions::new().max_connections(if best { 20 } else { 10 }).connect(&self.setup.url).await?;
        let mut queue = QueueConfig::new(WORKERS[usize::from(!best)]);
        if best {
            queue = queue.with_fetch_poll_interval(Duration::from_millis(100));
        }
        let builder = Client::builder(pool).workers(workers).fetch_cooldown(cooldown(&self.setup));
        builder.queue(QUEUE, queue).build()?.start()?.detach();
        Ok(())
    }
}

fn main() -> ExitCode {
    awa_peer::run::<River>()
}
