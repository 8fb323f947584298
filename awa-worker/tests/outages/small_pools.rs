//! Few connections, many who want them, and more than one database.

use std::time::Duration;

use awa_storage::testing::TestDatabase;
use awa_worker::{Data, JobError};
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::support::{Gate, PATIENCE, Probe, Rig, drain, soon, until};
use crate::worker::{answer, client, enqueue, in_state};

fn pool_of(size: u32, database: &TestDatabase) -> PgPool {
    PgPoolOptions::new().max_connections(size).acquire_timeout(PATIENCE).connect_lazy_with(database.options())
}

// CONN-10
#[tokio::test]
async fn ten_workers_with_pools_of_one_to_three_migrate_and_start_at_once() {
    let database = TestDatabase::empty().await;
    let starts = (0..10).map(|number| {
        let pool = pool_of(1 + number % 3, &database);
        async move {
            awa_worker::migrate(&pool).await.expect("raced, and unharmed");
            let client = client(&pool, 50).connections(2);
            client.register(answer).build().unwrap().start().await.expect("started")
        }
    });
    let running = soon("all start", join_all(starts)).await;
    let pool = database.pool();
    enqueue(&pool, 500).await;
    in_state(&pool, "completed", 500).await;
    soon("all end", join_all(running.iter().map(drain))).await;
}

// CONN-10: fifty handlers and one connection, which the first of them does not let go of.
#[tokio::test]
async fn handlers_that_use_up_the_pool_of_the_service_starve_no_heartbeat() {
    let rig = Rig::new().await;
    let pool = pool_of(1, &rig.database);
    let gate = Gate::new();
    let handler = async |_: Probe, pool: Data<PgPool>, gate: Data<Gate>| {
        let mut connection = pool.acquire().await?;
        gate.passed().await;
        let one: i32 = sqlx::query_scalar("select 1").fetch_one(&mut *connection).await?;
        Ok::<Value, JobError>(json!(one))
    };
    let client = client(&pool, 50);
    let client = client.data(pool.clone()).data(gate.clone()).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    enqueue(&rig.pool, 50).await;
    let beaten = "select count(*) from awa.jobs
                   where state = 'running' and heartbeat_at > attempted_at + interval '500 milliseconds'";
    until("beats of all", async || rig.count(beaten).await == 50).await;
    gate.open();
    in_state(&rig.pool, "completed", 50).await;
    assert_eq!(rig.count("select count(*) from awa.jobs where attempt = 1").await, 50);
    drain(&running).await;
}

#[tokio::test]
async fn one_process_works_for_several_databases_and_mixes_nothing_up() {
    let rigs = [Rig::new().await, Rig::new().await, Rig::new().await];
    let mut running = Vec::new();
    for rig in &rigs {
        let handler = async |job: Probe, home: Data<String>| Ok::<_, JobError>(json!([job.name, home.as_str()]));
        let client = client(&rig.pool, 10).poll_interval(Duration::from_secs(3600));
        let client = client.data(rig.database.name().to_owned()).register(handler).build().unwrap();
        running.push(client.start().await.unwrap());
    }
    for rig in &rigs {
        enqueue(&rig.pool, 20).await;
    }
    for rig in &rigs {
        in_state(&rig.pool, "completed", 20).await;
        let home = sqlx::query_scalar::<_, i64>("select count(*) from awa.jobs where result ->> 1 = $1");
        assert_eq!(home.bind(rig.database.name()).fetch_one(&rig.pool).await.unwrap(), 20);
        assert_eq!(rig.count("select count(*) from awa.workers").await, 1);
    }
    // One may end while the others go on.
    drain(&running.remove(0)).await;
    enqueue(&rigs[2].pool, 1).await;
    in_state(&rigs[2].pool, "completed", 21).await;
    soon("all end", join_all(running.iter().map(drain))).await;
}
