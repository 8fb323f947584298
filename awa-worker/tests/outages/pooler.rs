//! Behind PgBouncer in transaction mode: everything works but LISTEN, or the client says at once why it cannot.

use std::time::Duration;

use awa_worker::{Client, Data, JobContext, JobError, NewJob};
use futures_util::future::join_all;
use serde_json::{Value, json};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::log;
use crate::server::PrivateServer;
use crate::support::{Probe, drain, probe, soon};
use crate::worker::{JOBS, answer, client, count, enqueue, in_state};

fn pool(url: &str) -> PgPool {
    PgPoolOptions::new().max_connections(5).connect_lazy(url).unwrap()
}

/// Reports progress, and has a result that is no ASCII. An attempt that fails leaves an aborted transaction behind.
async fn report(job: Probe, context: JobContext, pool: Data<PgPool>) -> Result<Value, JobError> {
    context.progress().set(50, "на полпути 🦀")?;
    context.set_checkpoint("где", &"здесь \" ' \\ ünïcödé")?;
    context.progress().flush().await?;
    if job.name == "again" && context.attempt() == 1 {
        let mut tx = pool.begin().await?;
        assert!(sqlx::query("select 1 / 0").execute(&mut *tx).await.is_err());
        return Err("ещё раз".into());
    }
    Ok(json!({ "имя": job.name, "где": context.checkpoint::<String>("где")? }))
}

fn reporting(pool: &PgPool) -> Client {
    client(pool, 50).data(pool.clone()).register(report).build().unwrap()
}

/// Two workers behind a pooler, which `xtask` starts by these words.
async fn work_behind(pooler: &str) {
    log::record();
    let mut server = PrivateServer::empty();
    let url = server.tell(pooler);
    let pooled = pool(&url);
    awa_worker::migrate(&pooled).await.unwrap();
    let workers = [reporting(&pooled), reporting(&pooled)];
    let running: Vec<_> = join_all(workers.iter().map(Client::start)).await.into_iter().map(Result::unwrap).collect();
    log::logged(&["WARN", "a pooler that lends sessions", "no LISTEN"]).await;
    enqueue(&pooled, 200).await;
    let again = NewJob::new(&probe("again")).metadata(json!({ "ключ": "значение" }));
    let again = workers[0].enqueue(again).await.unwrap().id();
    in_state(&server.pool, "completed", 201).await;
    assert_eq!(count(&server.pool, JOBS).await, Some(201));
    let rows = "select count(*) from awa.jobs
                 where result ->> 'где' = E'здесь \" '' \\\\ ünïcödé' and (result ->> 'имя') = args ->> 'name'";
    assert_eq!(count(&server.pool, rows).await, Some(201), "as through a direct connection");
    let status = workers[1].job_status(again).await.unwrap().unwrap();
    assert_eq!((status.attempt, status.state), (2, awa_worker::JobState::Completed));
    soon("both end", join_all(running.iter().map(drain))).await;
    let open = "select count(*) from pg_stat_activity where state like 'idle in transaction%'";
    assert_eq!(count(&server.pool, open).await, Some(0), "the transaction that failed holds no session");
    let left = "select count(*) from pg_locks where locktype = 'advisory'";
    assert_eq!(count(&server.pool, left).await, Some(0), "nothing is left in sessions that others get");
    let changed = "select count(*) from awa.workers";
    assert_eq!(count(&server.pool, changed).await, Some(0));
    let timeouts: Vec<String> = join_all((0..5).map(async |_| {
        sqlx::query_scalar("select current_setting('statement_timeout')").fetch_one(&pooled).await.unwrap()
    }))
    .await;
    assert!(timeouts.iter().all(|timeout| timeout == "0"), "{timeouts:?}");
}

// CONN-06, CONN-08
#[tokio::test]
async fn workers_behind_a_pooler_that_keeps_statements_do_as_others_do_and_say_that_they_poll() {
    work_behind("pooler 200").await;
}

// CONN-06: fewer sessions than one of them has connections.
#[tokio::test]
async fn two_workers_share_the_five_sessions_of_a_pooler() {
    work_behind("pooler 200 5").await;
}

// CONN-06
#[tokio::test]
async fn pooler_that_keeps_no_statements_is_named_at_the_start() {
    let mut server = PrivateServer::new().await;
    let url = server.tell("pooler 0 5");
    let pooled = pool(&url);
    let worker = client(&pooled, 10).poll_interval(Duration::from_millis(10)).register(answer).build().unwrap();
    let refused = worker.start().await.expect_err("it cannot work").to_string();
    assert!(refused.contains("max_prepared_statements") && refused.contains("PgBouncer 1.21"), "{refused}");
}
