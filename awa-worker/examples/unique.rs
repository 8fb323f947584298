//! Jobs of which there should be one: a second enqueue gets the first one's id.
//!
//! `DATABASE_URL=postgres://… cargo run -p awa-worker --example unique`

use std::time::Duration;

use awa_worker::sqlx::PgPool;
use awa_worker::{Inserted, JobArgs, NewJob, Unique};

/// One job a customer until it is finished: the reason is left out of the comparison.
#[derive(serde::Serialize, serde::Deserialize, JobArgs)]
#[job(unique(args(customer)))]
struct Rebuild {
    customer: u64,
    reason: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPool::connect(&std::env::var("DATABASE_URL")?).await?;
    awa_worker::migrate(&pool).await?;

    for reason in ["address changed", "order placed"] {
        let job = Rebuild { customer: 7, reason: reason.to_owned() };
        match awa_worker::enqueue(&pool, &job).await? {
            Inserted::New(id) => println!("{reason}: job {id}"),
            Inserted::Duplicate(id) => println!("{reason}: job {id} is there already"),
            Inserted::Replaced(id) => println!("{reason}: job {id} was waiting and runs with these args"),
        }
    }

    // Another rule for one job: at most one an hour, also when the earlier one is completed.
    let hourly = Unique::within(Duration::from_secs(3600));
    let job = Rebuild { customer: 8, reason: "hourly".to_owned() };
    println!("{:?}", awa_worker::enqueue(&pool, NewJob::new(&job).unique(hourly)).await?);
    Ok(())
}
