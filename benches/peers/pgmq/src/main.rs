//! pgmq: a queue of messages, not of jobs. Installed as plain SQL, which needs no extension. The worker is the loop that its
//! README describes: read some, handle them, delete them.

use std::process::ExitCode;
use std::time::Duration;

use awa_peer::{Payload, Peer, QUEUE, Result, Seen, Settings, Setup};
use pgmq::PGMQueueExt;
use sqlx::postgres::PgPoolOptions;

/// Seconds until a message that was not deleted is seen again.
const VISIBILITY_S: i32 = 30;

struct Pgmq {
    setup: Setup,
    producer: PGMQueueExt,
}

/// How a worker reads.
#[derive(Clone, Copy)]
struct Reading {
    loops: usize,
    batch: i32,
    poll: Option<Duration>,
}

const BEST: Reading = Reading { loops: 4, batch: 500, poll: Some(Duration::from_millis(10)) };
/// What `read_with_poll` does if one says nothing.
const DEFAULTS: Reading = Reading { loops: 1, batch: 1, poll: None };

/// Over a pool of its own: it does not read every URL that sqlx reads.
async fn queue(setup: &Setup) -> Result<PGMQueueExt> {
    let pool = PgPoolOptions::new().max_connections(10).connect(&setup.url).await?;
    Ok(PGMQueueExt::new_with_pool(pool).await)
}

impl Peer for Pgmq {
    const NAME: &'static str = "pgmq (messages only)";
    const VERSION: &'static str = "0.34.0-alpha.7";
    const LEFT: &'static str = "select count(*) from pgmq.q_bench";

    fn configuration(settings: Settings) -> &'static str {
        match settings {
            Settings::Best => "4 loops of read_batch_with_poll (500, every 10 ms) and delete_batch",
            Settings::Defaults => "1 loop of read_batch_with_poll (1, every 250 ms) and delete_batch",
        }
    }

    async fn open(setup: Setup) -> Result<Self> {
        let producer = queue(&setup).await?;
        producer.install_sql_from_embedded().await?;
        producer.create(QUEUE).await?;
        Ok(Self { setup, producer })
    }

    async fn enqueue_one(&self, payload: Payload) -> Result {
        self.producer.send(QUEUE, &payload).await?;
        Ok(())
    }

    async fn enqueue_many(&self, payloads: Vec<Payload>) -> Result {
        self.producer.send_batch(QUEUE, &payloads).await?;
        Ok(())
    }

    async fn start(&self) -> Result {
        let reading = if self.setup.best() { BEST } else { DEFAULTS };
        let queue = queue(&self.setup).await?;
        for _ in 0..reading.loops {
            let (queue, seen) = (queue.clone(), self.setup.seen.clone());
            tokio::spawn(async move {
                if let Err(error) = consume(&queue, &seen, reading).await {
                    eprintln!("worker: {error}");
                }
            });
        }
        Ok(())
    }
}

async fn consume(queue: &PGMQueueExt, seen: &Seen, reading: Reading) -> Result {
    loop {
        let messages = queue
            .read_batch_with_poll::<Payload, serde_json::Value>(QUEUE, VISIBILITY_S, reading.batch, None, reading.poll)
            .await?;
        for message in &messages {
            seen.started(message.message.sent_us);
        }
        let ids: Vec<i64> = messages.iter().map(|message| message.msg_id).collect();
        queue.delete_batch(QUEUE, &ids).await?;
    }
}

fn main() -> ExitCode {
    awa_peer::run::<Pgmq>()
}
