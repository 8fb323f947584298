//! The worker process: a client with the handlers, and settings short enough that a lost worker is noticed while one watches.

use crate::{args::Work, jobs, kinds, store::Store};
use awa_worker::{Client, QueueConfig};
use sqlx::PgPool;
use std::{error::Error, time::Duration};

/// A sign of life this often …
const HEARTBEAT: Duration = Duration::from_secs(1);
/// … and dead after this long without one. A service would keep the defaults, which are thirty times as long.
const STALE_AFTER: Duration = Duration::from_secs(3);

/// Works until it is told to stop.
pub(crate) async fn run(pool: PgPool, options: Work) -> Result<(), Box<dyn Error>> {
    let client = Client::builder(pool.clone())
        .name(options.name)
        .queue(kinds::QUEUE, QueueConfig::new().max_workers(options.jobs_at_once))
        .heartbeat_interval(HEARTBEAT)
        .stale_after(STALE_AFTER)
        .register(jobs::index_file)
        .register(jobs::merge_index)
        .register(jobs::reach_mirror)
        .register(jobs::remind)
        .register(jobs::summarise)
        .register(jobs::announce)
        .data(Store::new(pool))
        .build()?;
    client.run_until(awa_worker::shutdown_signal()).await?;
    Ok(())
}
