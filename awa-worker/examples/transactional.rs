//! A job and the row it is about, in one transaction: both exist, or neither.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example transactional`

use std::time::Duration;

use awa_worker::sqlx::{self, PgPool};
use awa_worker::{Client, Data, JobArgs, JobError, NewJob, QueueConfig, Shutdown};
use tokio::sync::mpsc;

#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
#[job(kind = "send_invoice", queue = "mail")]
struct SendInvoice {
    order_id: i64,
}

struct Office {
    pool: PgPool,
    sent: mpsc::UnboundedSender<i64>,
}

/// Runs at least once, so it makes its effect repeatable: the order is marked only if it is not yet.
async fn send_invoice(job: SendInvoice, office: Data<Office>) -> Result<(), JobError> {
    let marked = sqlx::query("update public.awa_example_orders set invoiced = true where id = $1 and not invoiced")
        .bind(job.order_id)
        .execute(&office.pool)
        .await?;
    println!("order {}: {}", job.order_id, if marked.rows_affected() == 1 { "invoiced" } else { "nothing to do" });
    office.sent.send(job.order_id)?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;
    sqlx::raw_sql(
        "create table if not exists public.awa_example_orders (
             id bigint generated always as identity primary key, invoiced boolean not null default false)",
    )
    .execute(&pool)
    .await?;

    for commits in [false, true] {
        let mut tx = pool.begin().await?;
        let order_id: i64 = sqlx::query_scalar("insert into public.awa_example_orders default values returning id")
            .fetch_one(&mut *tx)
            .await?;
        let job = awa_worker::enqueue(&mut *tx, NewJob::new(&SendInvoice { order_id }).priority(1)).await?;
        println!("enqueued {job:?} for order {order_id}");
        if commits {
            tx.commit().await?;
        } else {
            tx.rollback().await?; // neither the order nor its job ever existed
        }
    }

    let (sent, mut invoices) = mpsc::unbounded_channel();
    let client = Client::builder(pool.clone())
        .queue("mail", QueueConfig::new().max_workers(4))
        .register(send_invoice)
        .data(Office { pool, sent })
        .build()?;
    let running = client.start().await?;
    invoices.recv().await;
    running.shutdown(Shutdown::Drain { timeout: Duration::from_secs(10) }).await?;
    Ok(())
}
