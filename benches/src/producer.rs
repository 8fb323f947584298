//! Producers: batches through `awa.enqueue_batch` or COPY, as fast as a cap on the backlog or an offered rate allows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use awa_storage::enqueue::{enqueue_copy, enqueue_many};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    Result,
    database::Scratch,
    jobs::{Jobs, Shape},
    runtime::{self, Crew},
};

/// Jobs enqueued by one call.
pub(crate) const BATCH: usize = 500;
/// Batches that one producer prepares and sends in turn, so that making args is not measured.
const BATCHES_PREPARED: usize = 32;
/// How long a producer waits while the backlog is full.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// How fast jobs are offered.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offer {
    /// As many as keep this many waiting, by the count of jobs handled: that paces and measures nothing.
    Backlog(u64),
    /// So many a second, whatever happens.
    Rate(u64),
}

/// How a producer enqueues a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Call {
    /// One statement with an array a column.
    Insert,
    /// COPY.
    Copy,
}

/// A producer at work.
pub(crate) struct Producer {
    stop: Arc<AtomicBool>,
    enqueued: Arc<AtomicU64>,
    crew: Crew<()>,
}

impl Producer {
    /// Starts to enqueue. `handled` counts the jobs that are through.
    pub(crate) fn start(scratch: &Scratch, offer: Offer, shape: Shape, call: Call, handled: Arc<AtomicU64>) -> Self {
        let (stop, enqueued) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (options, stopped, counter) = (scratch.options(), Arc::clone(&stop), Arc::clone(&enqueued));
        let crew = runtime::start("producer", 1, move || async move {
            let pool = sqlx::PgPool::connect_with(options).await?;
            let mut jobs = Jobs::new(0, shape);
            let batches = (0..BATCHES_PREPARED).map(|_| jobs.batch(BATCH)).collect::<Result<Vec<_>>>()?;
            let started = Instant::now();
            for batch in batches.iter().cycle() {
                if !wait_for_turn(offer, started, &counter, &handled, &stopped).await {
                    break;
                }
                let inserted = match call {
                    Call::Insert => enqueue_many(&pool, batch).await?,
                    Call::Copy => enqueue_copy(&mut *pool.acquire().await?, batch).await?,
                };
                counter.fetch_add(inserted.len() as u64, Ordering::Relaxed);
            }
            pool.close().await;
            Ok(())
        });
        Self { stop, enqueued, crew }
    }

    /// Stops, and answers how many jobs were enqueued.
    pub(crate) async fn stop(self) -> Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        self.crew.join().await?;
        Ok(self.enqueued.load(Ordering::Relaxed))
    }
}

/// Waits until another batch may be sent; false once stopped.
async fn wait_for_turn(
    offer: Offer,
    started: Instant,
    enqueued: &AtomicU64,
    handled: &AtomicU64,
    stop: &AtomicBool,
) -> bool {
    let sent = enqueued.load(Ordering::Relaxed);
    match offer {
        Offer::Rate(rate) => sleep_until(started + Duration::from_secs_f64(sent as f64 / rate as f64)).await,
        Offer::Backlog(most) => {
            while sent + BATCH as u64 > handled.load(Ordering::Relaxed) + most && !stop.load(Ordering::Relaxed) {
                sleep(FULL_PAUSE).await;
            }
        }
    }
    !stop.load(Ordering::Relaxed)
}

/// Enqueues `count` jobs and returns.
pub(crate) async fn preload(scratch: &Scratch, count: usize) -> Result {
    let pool = scratch.pool(1);
    let mut jobs = Jobs::new(0, Shape::USUAL);
    let mut left = count;
    while left > 0 {
        let size = left.min(1_000);
        enqueue_many(&pool, &jobs.batch(size)?).await?;
        left -= size;
    }
    pool.close().await;
    Ok(())
}
