//! The simple protocol: SQL as text, which other languages and poolers like. What it writes is what Awa's own statements
//! write, also where the JSON is no ASCII.

use awa_model::{QueueName, WorkerId};
use awa_storage::workers::{WorkerInfo, register};
use awa_storage::{Cursors, Held, attempt, callback, settle};
use awa_worker::NewJob;
use serde_json::{Value, json};
use sqlx::postgres::{PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, PgPool, Row as _};

use crate::server::PrivateServer;
use crate::support::{Probe, probe, soon};

/// What is hard to write down.
const TEXT: &str = "здесь \" ' \\ ünïcödé 🦀 \u{202e}\u{fffd} \\u00e9 $1 ::jsonb ; --";

fn document() -> Value {
    json!({ "ключ": TEXT, "число": 12_345_678_901_234_567_u64, TEXT: [null, true, { "": [] }] })
}

/// The document as a literal.
fn literal() -> String {
    format!("$json${}$json$::jsonb", document())
}

/// Sends a text, and returns the rows that come back.
async fn say(pool: &PgPool, text: String) -> Vec<PgRow> {
    sqlx::raw_sql(AssertSqlSafe(text.clone())).fetch_all(pool).await.expect(&text)
}

/// The first column of the only row.
async fn told<T>(pool: &PgPool, text: String) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    say(pool, text).await.remove(0).get(0)
}

/// Claims the job that was enqueued last.
async fn claim(direct: &PgPool) -> Held {
    let worker = WorkerId::random();
    let info = WorkerInfo {
        id: worker,
        name: "test".to_owned(),
        host: "here".to_owned(),
        pid: 1,
        version: "0".to_owned(),
        queues: vec!["default".to_owned()],
        kinds: vec!["probe".to_owned()],
    };
    register(direct, &info).await.unwrap();
    let queue: QueueName = "default".parse().unwrap();
    let claiming = async {
        loop {
            let cursors = Cursors::new(worker, &["probe".parse().unwrap()], std::slice::from_ref(&queue));
            cursors.load(direct).await.unwrap();
            if let Some(claimed) = cursors.claim(direct, &[(queue.clone(), 1)]).await.unwrap().pop() {
                return claimed.lease.held();
            }
        }
    };
    soon("a claim", claiming).await
}

/// A job and its callbacks, but for ids and times.
async fn row(direct: &PgPool, held: &Held) -> Value {
    let asked = "select jsonb_build_object(
               'job', to_jsonb(job) - '{id,seq,segment,created_at,run_at,attempted_at,attempted_by,heartbeat_at,finalized_at}'::text[]
                                       #- '{errors,0,at}' #- '{errors,0,worker}',
               'text', concat_ws(E'\n', job.args, job.metadata, job.progress, job.result),
               'callbacks', (select jsonb_agg(to_jsonb(opened) - '{id,job_id,created_at,due_at,answered_at}'::text[])
                               from awa.callbacks as opened where opened.job_id = job.id))
          from awa.jobs as job where job.id = $1";
    sqlx::query_scalar(asked).bind(held.job_id().get()).fetch_one(direct).await.unwrap()
}

/// A job with its args and metadata, which is claimed then.
async fn job(direct: &PgPool, simple: Option<&PgPool>) -> Held {
    match simple {
        Some(simple) => {
            let args = format!("$json${}$json$", json!({ "name": TEXT }));
            let id: i64 = told(
                simple,
                format!(
                    "select job_id from awa.enqueue('probe', {args}, metadata => {}, tags => '{{ещё}}')",
                    literal()
                ),
            )
            .await;
            assert!(id > 0);
        }
        None => {
            let job: NewJob<Probe> = NewJob::new(&probe(TEXT)).metadata(document()).tag("ещё");
            let _ = awa_worker::enqueue(direct, job).await.unwrap();
        }
    }
    claim(direct).await
}

/// Everything that is written about a job, either in Awa's own words or in simple ones; and what is to be seen after each.
async fn life(direct: &PgPool, simple: Option<&PgPool>) -> Vec<Value> {
    let (text, literal) = (document().to_string(), literal());
    let progress = json!({ "percent": 50, "message": TEXT, "metadata": document(), "generation": 1 }).to_string();
    let held = job(direct, simple).await;
    let mut seen = vec![row(direct, &held).await];
    let (id, lease) = (held.job_id().get(), held.run_lease().get());
    if let Some(simple) = simple {
        let arrays = format!("array[0]::smallint[], array[{id}], array[{lease}]");
        say(simple, format!("select awa.beat({arrays}, array[$json${progress}$json$::jsonb])")).await;
        seen.push(row(direct, &held).await);
        assert!(told::<bool>(simple, format!("select awa.complete_in(0::smallint, {id}, {lease}, {literal})")).await);
    } else {
        assert!(attempt::flush_progress(direct, &held, &progress).await.unwrap().is_applied());
        seen.push(row(direct, &held).await);
        assert!(settle::complete_in(direct, &held, Some(&text)).await.unwrap().is_applied());
    }
    seen.push(row(direct, &held).await);
    for answer in ["complete", "resume", "fail"] {
        let held = job(direct, simple).await;
        let (id, lease) = (held.job_id().get(), held.run_lease().get());
        if let Some(simple) = simple {
            let opened: String = told(simple, format!("select awa.open_callback({id}, {lease}, 60)::text")).await;
            let given = if answer == "fail" { format!("$text${TEXT}$text$") } else { literal.clone() };
            say(simple, format!("select * from awa.callback_{answer}('{opened}', {given})")).await;
        } else {
            let timeout = std::time::Duration::from_secs(60);
            let awa_storage::Guarded::Applied(opened) = callback::open(direct, &held, timeout).await.unwrap() else {
                panic!("it runs")
            };
            let _ = match answer {
                "complete" => callback::complete(direct, opened, Some(&text)).await,
                "resume" => callback::resume(direct, opened, Some(&text)).await,
                _ => callback::fail(direct, opened, TEXT).await,
            }
            .unwrap();
        }
        seen.push(row(direct, &held).await);
    }
    seen
}

// CONN-08: directly, and through a pooler that keeps no statements, which the simple protocol does not need.
#[tokio::test]
async fn simple_protocol_writes_the_rows_that_the_extended_one_writes() {
    let mut server = PrivateServer::new().await;
    let pooled = PgPoolOptions::new().max_connections(5).connect_lazy(&server.tell("pooler 0 5")).unwrap();
    let expected = life(&server.pool, None).await;
    assert_eq!(expected.len(), 6);
    assert!(expected[0].to_string().contains("ünïcödé 🦀"), "{}", expected[0]);
    for simple in [&server.pool, &pooled] {
        assert_eq!(life(&server.pool, Some(simple)).await, expected);
    }
}
