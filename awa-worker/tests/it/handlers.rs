//! What a handler may be registered for, and what it is given.

use awa_worker::{Client, Data, Error, JobArgs, JobContext, JobError, Mistake, NewJob, debug_handler};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Probe, Rig, drain, probe};

#[derive(Serialize, Deserialize, JobArgs)]
#[job(kind = "send_post", aliases("send_mail", "mail"), tags("post"), output = Value)]
struct SendPost {
    to: String,
}

#[derive(Serialize, Deserialize, JobArgs)]
#[job(kind = "mail")]
struct Mail;

#[tokio::test]
async fn a_handler_runs_the_jobs_of_its_aliases() {
    let rig = Rig::new().await;
    let handler = async |job: SendPost, context: JobContext| {
        Ok::<_, JobError>(json!([job.to, context.kind().as_str(), context.tags()]))
    };
    let running = rig.client().register(handler).build().unwrap().start().await.unwrap();
    let new = rig.enqueue(SendPost { to: "ada".to_owned() }).await;
    let mut old = Vec::new();
    for kind in ["send_mail", "mail"] {
        let id: i64 = sqlx::query_scalar("select job_id from awa.enqueue($1, '{\"to\": \"bob\"}')")
            .bind(kind)
            .fetch_one(&rig.pool)
            .await
            .unwrap();
        old.push((id, kind));
    }
    assert_eq!(rig.state(new, "completed").await.result, Some(json!(["ada", "send_post", ["post"]])));
    for (id, kind) in old {
        assert_eq!(rig.state(id, "completed").await.result, Some(json!(["bob", kind, []])));
    }
    drain(&running).await;
}

#[tokio::test]
async fn an_alias_that_another_handler_serves_is_a_mistake() {
    let rig = Rig::new().await;
    let built = Client::builder(rig.pool.clone())
        .register(async |_: SendPost| Ok::<_, JobError>(Value::Null))
        .register(async |_: Mail| Ok::<_, JobError>(()))
        .build();
    let Err(Error::Build(error)) = built else { panic!("built") };
    assert_eq!(error.mistakes(), [Mistake::KindTwice { kind: "mail" }]);
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
struct Origin {
    shop: String,
}

/// Every part that a handler may have; the attribute changes nothing about it.
#[debug_handler]
async fn curious(
    _: Probe,
    context: JobContext,
    given: Option<Data<u64>>,
    missing: Option<Data<String>>,
) -> Result<Value, JobError> {
    let origin: Option<Origin> = context.metadata_as()?;
    let number = context.metadata_as::<u8>().map_err(|error| error.to_string());
    Ok(json!([origin, given.map(|number| *number), missing.is_none(), context.has_tag("a"), number.is_err()]))
}

#[tokio::test]
async fn a_handler_can_do_without_data_and_reads_metadata_as_a_type() {
    let rig = Rig::new().await;
    let running = rig.client().register(curious).data(7_u64).build().unwrap().start().await.unwrap();
    let plain = rig.enqueue(probe("plain")).await;
    let described = NewJob::new(&probe("described")).tag("a").metadata(json!({ "shop": "web" }));
    let described = rig.enqueue(described).await;
    assert_eq!(rig.state(plain, "completed").await.result, Some(json!([null, 7, true, false, false])));
    assert_eq!(rig.state(described, "completed").await.result, Some(json!([{ "shop": "web" }, 7, true, true, true])));
    drain(&running).await;
}

#[derive(Debug, thiserror::Error)]
#[error("reading {0}")]
struct Reading(&'static str, #[source] std::io::Error);

#[tokio::test]
async fn errors_are_recorded_with_their_causes_and_panics_of_threads_that_are_joined_are_errors() {
    let rig = Rig::new().await;
    let handler = async |job: Probe| -> Result<Value, JobError> {
        match job.name.as_str() {
            "chain" => Err(Reading("a.png", std::io::Error::other(JobText("disk on fire"))))?,
            "task" => tokio::task::spawn_blocking(|| panic!("in a task")).await?,
            "thread" => std::thread::spawn(|| panic!("in a thread")).join().map_err(|_| "the thread panicked")?,
            _ => {}
        }
        Ok(Value::Null)
    };
    let running = rig.client().register(handler).build().unwrap().start().await.unwrap();
    for (name, expected) in
        [("chain", "reading a.png: disk on fire"), ("task", "in a task"), ("thread", "the thread panicked")]
    {
        let id = rig.enqueue(probe(name)).await;
        let row = rig.state(id, "retryable").await;
        assert!(row.last_error().contains(expected), "{name}: {:?}", row.last_error());
    }
    drain(&running).await;
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct JobText(&'static str);
