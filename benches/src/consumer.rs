//! What takes the jobs: a worker as services run it, or the statements of `awa-storage` in a bare loop. What the worker
//! adds shows in the difference.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use awa_model::{JobId, WorkerId};
use awa_storage::{
    Cursors, Guarded,
    claim::Claimed,
    ring::{self, Recycled, SettledMark},
    settle::{Completion, complete_many},
};
use awa_worker::{CancellationToken, Client, Data, JobContext, JobError, QueueConfig};
use serde_json::json;
use sqlx::{PgPool, postgres::PgConnectOptions};
use tokio::{task::JoinSet, time};
use uuid::Uuid;

use crate::{
    Result,
    database::Scratch,
    jobs::{self, Deferred, Noop, Shape},
    process,
    runtime::{self, Crew},
};

const TICK: Duration = Duration::from_millis(25);
const MARKS_INTERVAL: Duration = Duration::from_secs(3);
const RING_INTERVAL: Duration = Duration::from_millis(500);
/// A loop that found nothing rests this long.
const EMPTY_PAUSE: Duration = Duration::from_millis(2);
/// Rows in the way of a recycled segment that are moved on.
const STRAGGLERS_MAX: u32 = 4096;

/// What takes the jobs, and how much of them at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Loops that claim a batch, complete it, and begin again.
    Bare {
        /// How many.
        loops: usize,
        /// Jobs that one claim takes at most.
        batch: usize,
    },
    /// One worker with its defaults, but for this.
    Worker {
        /// Jobs that it holds at once, of all queues together.
        max_workers: usize,
        /// Whether each handler reports progress.
        reports: bool,
    },
    /// The same in processes of their own.
    Processes {
        /// How many.
        processes: usize,
        /// Jobs that all of them hold at once.
        max_workers: usize,
    },
}

/// A consumer at work.
pub(crate) struct Consumer {
    stop: CancellationToken,
    handled: Arc<AtomicU64>,
    deferred: Arc<AtomicU64>,
    crew: Crew<()>,
}

impl Consumer {
    /// Starts it on two threads.
    pub(crate) fn start(scratch: &Scratch, kind: Kind, shape: Shape) -> Self {
        let (stop, handled) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
        let deferred = Arc::new(AtomicU64::new(0));
        let (options, stopped, counter) = (scratch.options(), stop.clone(), Arc::clone(&handled));
        let late = Late(Arc::clone(&deferred));
        let crew = runtime::start("worker", 2, move || async move {
            match kind {
                Kind::Bare { loops, batch } => bare(options, loops, batch, counter, stopped).await,
                Kind::Worker { max_workers, reports } => {
                    let wants = Wants { max_workers, reports, shape };
                    worker(options, wants, counter, late, stopped).await
                }
                Kind::Processes { processes, max_workers } => {
                    process::run_many(&options, processes, max_workers / processes, &counter, &stopped).await
                }
            }
        });
        Self { stop, handled, deferred, crew }
    }

    /// Counts the jobs handled: for pacing and for knowing when to stop, never for a figure.
    pub(crate) fn handled(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.handled)
    }

    /// Waits for the first job: seconds count from there.
    pub(crate) async fn has_begun(&self) {
        self.has_handled(1).await;
    }

    /// Waits until `count` jobs and `deferred` others, which had to be promoted first, are handled, then stops in order:
    /// whatever was handled is settled.
    pub(crate) async fn finish(self, count: u64, deferred: u64) -> Result {
        self.has_handled(count).await;
        while self.deferred.load(Ordering::Relaxed) < deferred && !self.crew.has_ended() {
            time::sleep(EMPTY_PAUSE).await;
        }
        self.stop.cancel();
        self.crew.join().await
    }

    async fn has_handled(&self, count: u64) {
        while self.handled.load(Ordering::Relaxed) < count && !self.crew.has_ended() {
            time::sleep(EMPTY_PAUSE).await;
        }
    }
}

/// What a worker is set to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wants {
    /// Jobs that it holds at once, of all queues together.
    pub(crate) max_workers: usize,
    /// Whether each handler reports progress.
    pub(crate) reports: bool,
    /// What the jobs are like.
    pub(crate) shape: Shape,
}

/// Runs a worker until told to stop; fails if it leaves anything behind.
pub(crate) async fn worker(
    options: PgConnectOptions,
    wants: Wants,
    handled: Arc<AtomicU64>,
    late: Late,
    stop: CancellationToken,
) -> Result {
    let queues = wants.shape.queue_names();
    let slots = (wants.max_workers / queues.len()).max(1);
    let mut builder = Client::builder(PgPool::connect_with(options).await?).data(handled).data(late).register(promoted);
    for queue in queues {
        builder = builder.queue(queue, QueueConfig::new().max_workers(slots));
    }
    let builder = if wants.reports { builder.register(reporting) } else { builder.register(noop) };
    let client = builder.build()?;
    let report = client.run_until(stop.cancelled_owned()).await?;
    client.pool().close().await;
    match report.left_to_rescue + report.returned {
        0 => Ok(()),
        left => Err(format!("{left} jobs were not settled").into()),
    }
}

async fn noop(_job: Noop, handled: Data<Arc<AtomicU64>>) -> std::result::Result<(), JobError> {
    handled.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn reporting(job: Noop, context: JobContext, handled: Data<Arc<AtomicU64>>) -> std::result::Result<(), JobError> {
    context.progress().set(50, "half of it is done")?;
    context.progress().update_metadata(json!({ "page": job.number }))?;
    handled.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Counts deferred jobs apart: they would upset the pace of the producer.
pub(crate) struct Late(pub(crate) Arc<AtomicU64>);

async fn promoted(_job: Deferred, late: Data<Late>) -> std::result::Result<(), JobError> {
    late.0.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

async fn bare(
    options: PgConnectOptions,
    loops: usize,
    batch: usize,
    settled: Arc<AtomicU64>,
    stop: CancellationToken,
) -> Result {
    let pool = PgPool::connect_with(options).await?;
    let cursors = Arc::new(Cursors::new(WorkerId::new(Uuid::new_v4()), &[jobs::kind()?], &[jobs::queue()?]));
    cursors.load(&pool).await?;
    let mut tasks: JoinSet<Result> = JoinSet::new();
    for _ in 0..loops {
        tasks.spawn(work(pool.clone(), Arc::clone(&cursors), batch, Arc::clone(&settled), stop.clone()));
    }
    tasks.spawn(tick(pool.clone(), cursors, stop.clone()));
    tasks.spawn(keep_ring(pool.clone(), stop));
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    pool.close().await;
    Ok(())
}

async fn work(
    pool: PgPool,
    cursors: Arc<Cursors>,
    batch: usize,
    settled: Arc<AtomicU64>,
    stop: CancellationToken,
) -> Result {
    let wants = [(jobs::queue()?, batch)];
    while !stop.is_cancelled() {
        let claimed = cursors.claim(&pool, &wants).await?;
        if claimed.is_empty() {
            time::sleep(EMPTY_PAUSE).await;
            continue;
        }
        let completions: Vec<Completion> = claimed.into_iter().map(completion).collect();
        let answers = complete_many(&pool, &completions).await?;
        if let Some(lost) = answers.iter().position(|answer| *answer == Guarded::Lost) {
            let job: JobId = completions[lost].lease.job_id();
            return Err(format!("the lease of job {job} was lost").into());
        }
        settled.fetch_add(answers.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

fn completion(claimed: Claimed) -> Completion {
    Completion { lease: claimed.lease, result: None }
}

async fn tick(pool: PgPool, cursors: Arc<Cursors>, stop: CancellationToken) -> Result {
    let mut ticks = time::interval(TICK);
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    let mut marked = time::Instant::now();
    while !stop.is_cancelled() {
        ticks.tick().await;
        cursors.tick(&pool).await?;
        if marked.elapsed() >= MARKS_INTERVAL {
            cursors.persist_marks(&pool).await?;
            marked = time::Instant::now();
        }
    }
    Ok(())
}

/// Rotates and recycles, as maintenance does.
async fn keep_ring(pool: PgPool, stop: CancellationToken) -> Result {
    let mut mark = SettledMark::default();
    while !stop.is_cancelled() {
        time::sleep(RING_INTERVAL).await;
        let needs = ring::look(&pool).await?;
        if needs.rotate {
            ring::rotate(&pool, needs.current).await?;
        }
        mark.observe(&pool).await?;
        if needs.recycle_in == Some(Duration::ZERO) {
            match ring::recycle(&pool, needs.oldest, mark.seq(), STRAGGLERS_MAX).await? {
                Recycled::Done | Recycled::Moved(_) | Recycled::Raced => {}
                Recycled::Locked | Recycled::Snapshots { .. } | Recycled::Waiting { .. } => {
                    time::sleep(RING_INTERVAL * 4).await;
                }
            }
        }
    }
    Ok(())
}
