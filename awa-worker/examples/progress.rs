//! A long job that says how far it is, and goes on where it was interrupted.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example progress`: the first attempt fails half way, the second
//! starts from the checkpoint.

use std::time::Duration;

use awa_worker::sqlx::PgPool;
use awa_worker::{Client, Data, HandlerExt as _, JobArgs, JobContext, JobError, RetryPolicy};
use tokio::sync::mpsc;

const PAGES: u64 = 10;

#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
struct Import {
    file: String,
}

async fn import(job: Import, context: JobContext, done: Data<mpsc::UnboundedSender<()>>) -> Result<(), JobError> {
    let first: u64 = context.checkpoint("next_page")?.unwrap_or(0);
    println!("attempt {} at {} starts on page {first}", context.attempt(), job.file);
    for page in first..PAGES {
        if context.is_cancelled() {
            return Err("asked to stop".into()); // tried again later, from the checkpoint
        }
        context.progress().set(page * 100 / PAGES, format!("page {page} of {PAGES}"))?;
        context.set_checkpoint("next_page", &(page + 1))?;
        if page == PAGES / 2 && context.attempt() == 1 {
            context.progress().flush().await?; // stored now, rather than by the next heartbeat or the end of the attempt
            return Err("the connection broke".into());
        }
    }
    println!("{} is imported", job.file);
    done.send(())?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;
    let job = awa_worker::enqueue(&pool, &Import { file: "customers.csv".to_owned() }).await?;
    println!("enqueued {job:?}");

    let (done, mut finished) = mpsc::unbounded_channel::<()>();
    let import = import.with_retry(RetryPolicy::fixed(Duration::from_secs(1)));
    let client = Client::builder(pool).register(import).data(done).build()?;
    client.run_until(async { finished.recv().await.unwrap_or_default() }).await?;
    Ok(())
}
