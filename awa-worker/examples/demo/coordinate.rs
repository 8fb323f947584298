//! The producer: everything that a run consists of is enqueued in one transaction, so a run is there as a whole or not at all.

use crate::{
    args::Coordinate,
    jobs::{Announce, IndexFile, MergeIndex, ReachMirror, Remind, Summarise},
    kinds, scan,
    store::Store,
};
use awa_worker::{Inserted, NewJob};
use sqlx::PgPool;
use std::{error::Error, time::Duration};

/// How long the delayed job waits.
const REMIND_IN: Duration = Duration::from_secs(3);
/// File jobs enqueued by one statement.
const ENQUEUE_BATCH: usize = 1000;

/// Enqueues a run and prints it.
pub(crate) async fn run(pool: PgPool, options: Coordinate) -> Result<(), Box<dyn Error>> {
    let files = scan::text_files(&options.directory)?;
    if files.is_empty() {
        return Err(format!("no text files under {}", options.directory.display()).into());
    }
    let items = options.jobs.map_or_else(|| i32::try_from(files.len()), Ok)?;
    awa_worker::migrate(&pool).await?;
    let run = Store::new(pool.clone()).begin_run(&options.directory.display().to_string()).await?;
    let tag = kinds::tag(run);

    let mut tx = pool.begin().await?;
    let _ = awa_worker::enqueue(&mut *tx, NewJob::new(&MergeIndex { run, items }).tag(&tag)).await?;
    let _ = awa_worker::enqueue(&mut *tx, NewJob::new(&ReachMirror { run }).tag(&tag)).await?;
    let _ = awa_worker::enqueue(&mut *tx, NewJob::new(&Summarise { run }).tag(&tag)).await?;
    let _ = awa_worker::enqueue(&mut *tx, NewJob::new(&Remind { run }).run_in(REMIND_IN).tag(&tag)).await?;
    let first = awa_worker::enqueue(&mut *tx, NewJob::new(&Announce { run }).tag(&tag)).await?;
    let jobs: Vec<IndexFile> =
        (0..items).zip(files.iter().cycle()).map(|(item, path)| IndexFile { run, item, path: path.clone() }).collect();
    for batch in jobs.chunks(ENQUEUE_BATCH) {
        let batch = batch.iter().map(|job| NewJob::new(job).tag(&tag));
        let _ = awa_worker::enqueue_many(&mut *tx, batch).await?;
    }
    tx.commit().await?;

    // Once more, as two requests of an impatient user would.
    let second = awa_worker::enqueue(&pool, NewJob::new(&Announce { run }).tag(&tag)).await?;
    match (&first, &second) {
        (Inserted::New(original), Inserted::Duplicate(existing)) if original == existing => {}
        _ => return Err(format!("the second announcement should be a duplicate of {first:?}, got {second:?}").into()),
    }
    println!(
        "{}",
        serde_json::json!({ "run": run, "items": items, "files": files.len(), "duplicate_of": first.id().get() })
    );
    Ok(())
}
