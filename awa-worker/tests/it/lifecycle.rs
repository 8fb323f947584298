//! PROC-06, PROC-07: starting and ending in every order that a service may come to.

use awa_worker::{Client, Error, JobError, Shutdown};
use serde_json::Value;

use crate::shutdown::{CONNECTIONS, waiting};
use crate::support::{Gate, PATIENCE, Probe, Rig, drain, probe, soon, until};

fn quick(rig: &Rig) -> Client {
    rig.client().register(async |_: Probe| Ok::<_, JobError>(Value::Null)).build().unwrap()
}

async fn nothing_is_left(rig: &Rig) {
    until("farewell", async || rig.count("select count(*) from awa.workers").await == 0).await;
    until("closed connections", async || rig.count(CONNECTIONS).await == 0).await;
}

#[tokio::test]
async fn each_start_is_a_worker_of_its_own_also_after_an_end() {
    let rig = Rig::with_sessions().await;
    let client = quick(&rig);
    drain(&client.start().await.unwrap()).await;
    let (one, other) = (client.start().await.unwrap(), client.start().await.unwrap());
    assert_ne!(one.worker_id(), other.worker_id());
    assert_eq!(rig.count("select count(*) from awa.workers").await, 2);
    drain(&one).await;
    let id = rig.enqueue(probe("a")).await;
    rig.state(id, "completed").await;
    drain(&other).await;
    nothing_is_left(&rig).await;
}

#[tokio::test]
async fn worker_may_end_before_it_has_claimed_anything() {
    let rig = Rig::new().await;
    for how in [Shutdown::Now, Shutdown::Drain { timeout: PATIENCE }] {
        let running = quick(&rig).start().await.unwrap();
        let report = soon("end", running.shutdown(how)).await.unwrap();
        assert_eq!((report.returned, report.left_to_rescue, report.unfinished.len()), (0, 0, 0));
        // Over is over: asking again answers the same.
        assert_eq!(soon("end", running.shutdown(how)).await.unwrap(), report);
        assert_eq!(soon("end", running.ended()).await.unwrap(), report);
    }
    nothing_is_left(&rig).await;
}

/// A client that could not start says so, leaves nothing behind, and starts when it can.
#[tokio::test]
async fn start_without_a_database_fails_and_a_later_one_does_not() {
    let rig = Rig::new().await;
    let pool = sqlx::postgres::PgPoolOptions::new().connect_lazy_with(rig.database.options());
    let builder = Client::builder(pool).without_maintenance();
    let client = builder.register(async |_: Probe| Ok::<_, JobError>(Value::Null)).build().unwrap();
    let other = sqlx::PgPool::connect_with(rig.database.options().database("postgres")).await.unwrap();
    let (name, away) = (rig.database.name().to_owned(), format!("{}_away", rig.database.name()));
    rig.pool.close().await;
    let rename = async |from: &str, to: &str| {
        let statement = format!("alter database \"{from}\" rename to \"{to}\"");
        until("nobody is connected", async || {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement.clone())).execute(&other).await.is_ok()
        })
        .await;
    };
    rename(&name, &away).await;
    for _ in 0..2 {
        assert!(matches!(client.start().await, Err(Error::Storage(_))));
    }
    rename(&away, &name).await;
    let running = client.start().await.unwrap();
    drain(&running).await;
}

/// What runs belongs to `Running`: the client may go, and comes back as a clone if need be.
#[tokio::test]
async fn worker_outlives_its_client() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = waiting(&rig, &gate);
    let running = client.start().await.unwrap();
    drop(client);
    let id = rig.enqueue(probe("a")).await;
    let context = soon("start", told.recv()).await.unwrap();
    assert!(!context.is_cancelled());
    gate.open();
    rig.state(id, "completed").await;
    drain(&running).await;
    nothing_is_left(&rig).await;
}

// PROC-02: until then a signal would end the process as if nobody listened.
#[tokio::test]
async fn what_ends_a_worker_is_listened_for_before_it_starts() {
    let pool = sqlx::PgPool::connect_lazy("postgres://127.0.0.1:1/nowhere").unwrap();
    let client = Client::builder(pool).register(async |_: Probe| Ok::<_, JobError>(Value::Null)).build().unwrap();
    let mut listens = false;
    let stop = std::future::poll_fn(|_| {
        listens = true;
        std::task::Poll::<()>::Pending
    });
    assert!(client.run_until(stop).await.is_err());
    assert!(listens);
}
