//! A job that waits for the outside, without a worker, and goes on with what it is told.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example callback`: the order waits for its payment. The payment service,
//! which knows nothing of Awa but one SQL function, answers with the id that it was given.

use std::time::Duration;

use awa_worker::sqlx::{self, PgPool};
use awa_worker::{Client, Data, JobArgs, JobContext, JobError, Outcome};
use tokio::sync::mpsc;

const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
struct Order {
    number: u64,
}

#[derive(serde::Deserialize)]
struct Paid {
    cents: u64,
}

/// What goes on outside: bills in, and the end of the example out.
struct Outside {
    bills: mpsc::UnboundedSender<(u64, String)>,
    done: mpsc::UnboundedSender<()>,
}

async fn ship(order: Order, context: JobContext, outside: Data<Outside>) -> Result<Outcome, JobError> {
    if let Some(paid) = context.callback_payload::<Paid>().await? {
        println!("attempt {}: {} cents are here, order {} is shipped", context.attempt(), paid.cents, order.number);
        outside.done.send(())?;
        return Ok(Outcome::complete());
    }
    let callback = context.callback(DAY).await?;
    println!("attempt {}: order {} waits for its payment", context.attempt(), order.number);
    outside.bills.send((order.number, callback.to_string()))?;
    Ok(Outcome::wait_for(callback))
}

/// Another service: it may be written in any language.
async fn payments(pool: PgPool, mut bills: mpsc::UnboundedReceiver<(u64, String)>) -> Result<(), sqlx::Error> {
    while let Some((order, callback)) = bills.recv().await {
        let outcome: String =
            sqlx::query_scalar("select outcome from awa.callback_resume($1::uuid, '{\"cents\": 1999}')")
                .bind(callback.parse::<sqlx::types::Uuid>().map_err(|error| sqlx::Error::Decode(error.into()))?)
                .fetch_one(&pool)
                .await?;
        println!("order {order} is paid: {outcome}");
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;
    let _ = awa_worker::enqueue(&pool, &Order { number: 17 }).await?;

    let (bills, billed) = mpsc::unbounded_channel();
    let (done, mut finished) = mpsc::unbounded_channel::<()>();
    let paying = tokio::spawn(payments(pool.clone(), billed));
    let client = Client::builder(pool).register(ship).data(Outside { bills, done }).build()?;
    client.run_until(async { finished.recv().await.unwrap_or_default() }).await?;
    drop(client);
    paying.await??;
    Ok(())
}
