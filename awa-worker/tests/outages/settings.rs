//! A database that refuses to write for a while, and settings that administrators like.

use std::time::Duration;

use sqlx::{PgExecutor, PgPool};

use crate::log;
use crate::support::{Rig, drain, until};
use crate::worker::{CONNECTIONS, DISCONNECT, GATES, JOBS, answer, client, count, enqueue, in_state};

const HOUR: Duration = Duration::from_secs(3600);

/// Changes a setting of the database of this test, for connections to come. `db` must be one that may write.
async fn alter(db: impl PgExecutor<'_>, rig: &Rig, setting: &str) {
    let statement = format!("alter database {} set {setting}", rig.database.name());
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(db).await.unwrap();
}

// A failover leaves clients with a server that only reads, until somebody promotes it.
#[tokio::test]
async fn read_only_database_stops_the_worker_only_until_it_can_be_written_again() {
    log::record();
    let rig = Rig::new().await;
    let running = client(&rig.pool, 10).register(answer).build().unwrap().start().await.unwrap();
    enqueue(&rig.pool, 10).await;
    in_state(&rig.pool, "completed", 10).await;
    // This connection was there before, and goes on writing.
    let mut before = rig.pool.acquire().await.unwrap();
    alter(&mut *before, &rig, "default_transaction_read_only = on").await;
    rig.count(DISCONNECT).await;
    until("new connections", async || rig.count(CONNECTIONS).await > 0).await;
    awa_worker::enqueue(&mut *before, crate::support::probe("late")).await.map(drop).unwrap();
    log::logged(&["trying again", "read-only transaction"]).await;
    alter(&mut *before, &rig, "default_transaction_read_only = off").await;
    rig.count(DISCONNECT).await;
    in_state(&rig.pool, "completed", 11).await;
    assert_eq!(rig.count(JOBS).await, 11);
    drain(&running).await;
}

#[tokio::test]
async fn timeouts_for_people_end_neither_statements_nor_connections_of_a_worker() {
    let rig = Rig::new().await;
    enqueue(&rig.pool, 5).await;
    let ours =
        ["statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"].map(|name| (name, "0"));
    let observer = PgPool::connect_with(rig.database.options().options(ours)).await.unwrap();
    for timeout in ["statement_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout"] {
        alter(&rig.pool, &rig, &format!("{timeout} = '200ms'")).await;
    }
    alter(&rig.pool, &rig, "default_transaction_isolation = 'serializable'").await;
    let mut locked = observer.begin().await.unwrap();
    sqlx::raw_sql("lock table awa.jobs_hot in share row exclusive mode").execute(&mut *locked).await.unwrap();
    let running = client(&rig.pool, 10).poll_interval(HOUR).register(answer).build().unwrap().start().await.unwrap();
    let waiting =
        "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
                      and query like '%Claim jobs for one process%' and query_start < clock_timestamp() - interval '600 milliseconds'";
    until("a long wait", async || count(&observer, waiting).await == Some(1)).await;
    locked.rollback().await.unwrap();
    in_state(&observer, "completed", 5).await;
    until("sleep", async || count(&observer, GATES).await == Some(1)).await;
    let idle = "select count(*) from pg_stat_activity join pg_locks using (pid)
                 where locktype = 'advisory' and classid = 1096237385 and pg_locks.mode = 'ExclusiveLock'
                   and datname = current_database()
                   and state = 'idle' and state_change < clock_timestamp() - interval '600 milliseconds'";
    until("a long rest", async || count(&observer, idle).await == Some(1)).await;
    drain(&running).await;
}
