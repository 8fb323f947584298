//! What a handler may be registered for, and what it is given.

use awa_worker::{Client, Error, JobArgs, JobContext, JobError, Mistake};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{Rig, drain};

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
