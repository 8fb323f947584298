//! The jobs of the application and their handlers. They are written as a service would write them: each may run more than
//! once, so each writes what it found under a key of its own, and a second run changes nothing.

use crate::{facts::Facts, store::Store, total::Total};
use awa_worker::{Data, JobArgs, JobContext, JobError, Outcome, ResultExt as _};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The merge is cut into this many pieces, with a checkpoint after each.
const MERGE_PIECES: i32 = 40;
/// A small tree would be merged in a blink. Pauses make the job this long at least: enough to watch it, and to lose its
/// worker half-way.
const MERGE_TIME: Duration = Duration::from_secs(5);
/// How soon the unreachable mirror is tried again.
const MIRROR_RETRY: Duration = Duration::from_millis(500);
/// How often the summary looks whether the index is complete.
const SUMMARY_SNOOZE: Duration = Duration::from_secs(1);

/// Counts and hashes one file.
#[derive(Deserialize, JobArgs, Serialize)]
#[job(queue = "index")]
pub(crate) struct IndexFile {
    pub(crate) run: i64,
    pub(crate) item: i32,
    pub(crate) path: String,
}

/// Reading and hashing block, so they go where blocking is allowed.
pub(crate) async fn index_file(job: IndexFile, store: Data<Store>) -> Result<(), JobError> {
    let path = job.path.clone();
    let facts = tokio::task::spawn_blocking(move || std::fs::read(path).map(|content| Facts::of(&content))).await??;
    store.keep_facts(job.run, job.item, &job.path, &facts).await?;
    Ok(())
}

/// Adds all files up, in order.
#[derive(Deserialize, JobArgs, Serialize)]
#[job(queue = "index", priority = 1, output = Merged)]
pub(crate) struct MergeIndex {
    pub(crate) run: i64,
    pub(crate) items: i32,
}

/// What the merge answers.
#[derive(Deserialize, Serialize)]
pub(crate) struct Merged {
    pub(crate) total: Total,
    /// The file at which the last attempt began: above zero if it went on from a checkpoint.
    pub(crate) resumed_at: i32,
}

/// Each piece ends with a flushed checkpoint, so a rescue costs one piece of work and never a file counted twice.
pub(crate) async fn merge_index(job: MergeIndex, ctx: JobContext, store: Data<Store>) -> Result<Merged, JobError> {
    let mut total: Total = ctx.checkpoint("total")?.unwrap_or_default();
    let resumed_at = total.items;
    let pieces = job.items.clamp(1, MERGE_PIECES);
    let pause = MERGE_TIME / pieces.unsigned_abs();
    while total.items < job.items {
        for (path, facts) in store.facts_from(job.run, total.items, job.items / pieces).await? {
            total.add(&path, &facts);
        }
        ctx.set_checkpoint("total", &total)?;
        ctx.progress().set(total.percent(job.items), format!("merged {} of {} files", total.items, job.items))?;
        ctx.progress().flush().await?;
        tokio::select! {
            () = ctx.cancelled() => Err("told to stop; the checkpoint says where to go on")?,
            () = tokio::time::sleep(pause) => {}
        }
    }
    store.keep_total(job.run, &total).await?;
    Ok(Merged { total, resumed_at })
}

/// Fetches a list of mirrors from a server that answers only the third time.
#[derive(Deserialize, JobArgs, Serialize)]
#[job(queue = "index")]
pub(crate) struct ReachMirror {
    pub(crate) run: i64,
}

pub(crate) async fn reach_mirror(job: ReachMirror, ctx: JobContext) -> Result<(), JobError> {
    if ctx.attempt() <= 2 {
        Err(format!("the mirror of run {} does not answer", job.run)).retry_after(MIRROR_RETRY)?;
    }
    Ok(())
}

/// Runs a while after it was enqueued, and not before.
#[derive(Deserialize, JobArgs, Serialize)]
#[job(queue = "index")]
pub(crate) struct Remind {
    pub(crate) run: i64,
}

pub(crate) async fn remind(job: Remind, ctx: JobContext) -> Result<(), JobError> {
    let late = ctx.attempted_at() - ctx.run_at();
    tracing::info!(run = job.run, late_ms = late.num_milliseconds(), "reminded");
    Ok(())
}

/// Answers with the whole, once there is a whole.
#[derive(Deserialize, JobArgs, Serialize)]
#[job(queue = "index", output = Summary)]
pub(crate) struct Summarise {
    pub(crate) run: i64,
}

/// What the summary answers.
#[derive(Deserialize, Serialize)]
pub(crate) struct Summary {
    pub(crate) total: Total,
    pub(crate) largest: Option<String>,
}

/// Waiting in a handler would hold a slot; a snooze holds nothing, and costs no attempt.
pub(crate) async fn summarise(job: Summarise, store: Data<Store>) -> Result<Outcome<Summary>, JobError> {
    let Some(total) = store.total(job.run).await? else { return Ok(Outcome::snooze(SUMMARY_SNOOZE)) };
    let largest = store.largest(job.run).await?;
    Ok(Outcome::complete_with(Summary { total, largest }))
}

/// Must not be enqueued twice while it waits or runs.
#[derive(Debug, Deserialize, JobArgs, Serialize)]
#[job(queue = "index", unique(args))]
pub(crate) struct Announce {
    pub(crate) run: i64,
}

/// Appends a line each time, on purpose: it is how the demo sees whether the handler ran more than once.
pub(crate) async fn announce(job: Announce, ctx: JobContext, store: Data<Store>) -> Result<(), JobError> {
    store.announce(job.run, ctx.job_id().get()).await?;
    Ok(())
}
