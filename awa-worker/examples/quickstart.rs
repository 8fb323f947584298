//! The smallest service: one kind of job, enqueued in a transaction, run in the same process.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example quickstart`, and Ctrl-C to end it.

use awa_worker::sqlx::PgPool;
use awa_worker::{Client, JobArgs, JobContext, JobError, ResultExt as _, shutdown_signal};

#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
#[job(max_attempts = 5, timeout = "1m", output = usize)]
struct CountWords {
    text: String,
}

async fn count_words(job: CountWords, context: JobContext) -> Result<usize, JobError> {
    if job.text.is_empty() {
        Err("there is nothing to count").fatal()?; // no other attempt would help
    }
    let words = job.text.split_whitespace().count();
    println!("job {}: {words} words in {:?}", context.job_id(), job.text);
    Ok(words)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;

    let mut tx = pool.begin().await?;
    let job = awa_worker::enqueue(&mut *tx, &CountWords { text: "to be or not to be".to_owned() }).await?;
    tx.commit().await?; // the job exists if and only if this succeeds
    println!("enqueued {job:?}");

    Client::builder(pool).register(count_words).build()?.run_until(shutdown_signal()).await?;
    Ok(())
}
