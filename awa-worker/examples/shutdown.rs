//! Ending in order: running jobs finish, or go back to their queue without having spent an attempt.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example shutdown`

use std::time::Duration;

use awa_worker::sqlx::PgPool;
use awa_worker::{Client, Data, JobArgs, JobContext, JobError, Shutdown};
use tokio::sync::mpsc;

#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
struct Watch {
    patient: bool,
}

async fn watch(job: Watch, context: JobContext, started: Data<mpsc::UnboundedSender<()>>) -> Result<(), JobError> {
    started.send(())?;
    if job.patient {
        context.cancelled().await; // resolves when the time to drain is over
        println!("job {} was asked to stop: {:?}", context.job_id(), context.cancel_reason());
        return Err("interrupted".into()); // goes back to the queue; this error is not recorded
    }
    println!("job {} is done", context.job_id());
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;
    let jobs = awa_worker::enqueue_many(&pool, [Watch { patient: true }, Watch { patient: false }]).await?;
    println!("enqueued {jobs:?}");

    let (started, mut starts) = mpsc::unbounded_channel::<()>();
    let running = Client::builder(pool).register(watch).data(started).build()?.start().await?;
    for _ in 0..2 {
        starts.recv().await;
    }
    let report = running.shutdown(Shutdown::Drain { timeout: Duration::from_secs(1) }).await?;
    println!("returned to the queue: {}, left to rescue: {}", report.returned, report.left_to_rescue);
    Ok(())
}
