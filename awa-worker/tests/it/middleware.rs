//! Middleware: what it sees, what it may change, and what it cannot break.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use awa_worker::{
    Client, Enqueued, Error, Executed, Inserted, JobContext, JobError, JobOutput, Middleware, NewJob, Next,
    NextEnqueue, Outcome, TowerMiddleware, async_trait,
};
use serde_json::{Value, json};

use crate::support::{Probe, Rig, drain, probe, soon};

/// Notes what passes by.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Logging(&'static str, Log);

#[async_trait]
impl Middleware for Logging {
    async fn execute(&self, job: JobContext, next: Next) -> Executed {
        let Self(name, log) = self;
        log.note(format!("{name} before {}", job.attempt()));
        let answer = next.run().await;
        match &answer {
            Ok(outcome) => log.note(format!("{name} after {outcome:?}")),
            Err(error) => log.note(format!("{name} after {error}, fatal: {}", error.is_fatal())),
        }
        answer
    }

    async fn enqueue(&self, mut next: NextEnqueue<'_>) -> Result<Enqueued, Error> {
        let Self(name, log) = self;
        for job in next.jobs_mut() {
            let tags: Vec<_> = job.tags().iter().cloned().chain([(*name).to_owned()]).collect();
            job.set_tags(tags)?;
            job.set_metadata(json!({ "through": name, "args": job.args_json() }))?;
            job.set_trace_context(format!("00-{name}"))?;
        }
        let jobs = next.jobs().len();
        let answer = next.run().await;
        log.note(format!("{name} enqueued {jobs}: {}", answer.is_ok()));
        answer
    }
}

#[derive(Debug, PartialEq)]
struct Forbidden(String);

impl fmt::Display for Forbidden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is forbidden", self.0)
    }
}

impl std::error::Error for Forbidden {}

/// Refuses jobs of certain names, and misbehaves for others.
struct Refusing;

#[async_trait]
impl Middleware for Refusing {
    async fn execute(&self, job: JobContext, next: Next) -> Executed {
        let name = job.metadata().and_then(|metadata| metadata["name"].as_str()).unwrap_or_default();
        match name {
            "refused" => Err(JobError::fatal(Forbidden(name.to_owned()))),
            "answered" => Ok(Outcome::Complete(JobOutput::of("by the middleware")?)),
            "snoozed" => Ok(Outcome::snooze(Duration::from_secs(3600))),
            "panic before" => panic!("before the handler"),
            "panic after" => {
                let answer = next.run().await;
                panic!("after {answer:?}")
            }
            "rescued" => Ok(next.run().await.unwrap_or(Outcome::Complete(JobOutput::of("caught")?))),
            _ => next.run().await,
        }
    }

    async fn enqueue(&self, mut next: NextEnqueue<'_>) -> Result<Enqueued, Error> {
        for job in next.jobs_mut() {
            match job.args_json() {
                r#"{"name":"forbidden"}"# => return Err(Error::refused(Forbidden("this job".to_owned()))),
                r#"{"name":"spoiled"}"# => job.set_tags(["bad\ntag"])?,
                _ => {}
            }
        }
        next.run().await
    }
}

async fn handler(job: Probe) -> Result<Value, JobError> {
    match job.name.as_str() {
        "fails" => Err(JobError::fatal("no good")),
        "panics" | "rescued" => panic!("handler down"),
        name => Ok(json!(name)),
    }
}

fn client(rig: &Rig, log: &Log) -> Client {
    rig.client()
        .middleware(Logging("outer", log.clone()))
        .middleware(Logging("inner", log.clone()))
        .middleware(Refusing)
        .register(handler)
        .build()
        .unwrap()
}

#[tokio::test]
async fn the_first_is_the_outermost_and_sees_every_ending() {
    let rig = Rig::new().await;
    let log = Log::default();
    let running = client(&rig, &log).start().await.unwrap();
    for (name, state, seen) in [
        ("fine", "completed", "Complete(JobOutput(Some(\"\\\"fine\\\"\")))"),
        ("fails", "failed", "no good, fatal: true"),
        ("panics", "retryable", "handler down, fatal: false"),
    ] {
        let id = rig.enqueue(probe(name)).await;
        rig.state(id, state).await;
        let lines = log.taken();
        assert_eq!(lines[..2], ["outer before 1", "inner before 1"]);
        assert!(lines[2].starts_with("inner after ") && lines[2].ends_with(seen), "{lines:?}");
        assert!(lines[3].starts_with("outer after ") && lines[3].ends_with(seen), "{lines:?}");
        assert_eq!(lines.len(), 4);
    }
    // What cannot be read is a failed attempt like any other.
    let id = rig.enqueue(probe("misfit")).await;
    rig.state(id, "completed").await;
    log.taken();
    rig.execute(r#"insert into awa.jobs_hot_0 (id, kind, args) values (1001, 'probe', '{"nom": 7}')"#).await;
    rig.enqueue(probe("wake up")).await;
    rig.state(1001, "retryable").await;
    assert!(log.taken().iter().any(|line| line.starts_with("outer after the args do not fit")));
    drain(&running).await;
}

#[tokio::test]
async fn it_may_answer_itself_and_its_panics_fail_the_attempt_alone() {
    let rig = Rig::new().await;
    let running = client(&rig, &Log::default()).start().await.unwrap();
    let job = |name: &str| NewJob::new(&probe(name)).metadata(json!({ "name": name }));
    for (name, state, error) in [
        ("refused", "failed", "refused is forbidden"),
        ("answered", "completed", ""),
        ("snoozed", "scheduled", ""),
        ("panic before", "retryable", "before the handler"),
        ("panic after", "retryable", "after Ok(Complete(JobOutput(Some("),
        ("rescued", "completed", ""),
    ] {
        let id = rig.enqueue(job(name)).await;
        let row = rig.state(id, state).await;
        assert!(row.last_error().contains(error), "{name}: {:?}", row.last_error());
        match name {
            "answered" => assert_eq!(row.result, Some(json!("by the middleware"))),
            "rescued" => assert_eq!(row.result, Some(json!("caught"))),
            _ => assert_eq!(row.result, None, "{name}"),
        }
    }
    drain(&running).await;
}

#[tokio::test]
async fn what_is_enqueued_through_the_client_passes_it_and_what_is_not_does_not() {
    let rig = Rig::new().await;
    let log = Log::default();
    let client = client(&rig, &log);
    let id = |inserted: Inserted<Probe>| inserted.id().get();
    let mut tx = rig.pool.acquire().await.unwrap();
    let mut ids = vec![
        id(client.enqueue(NewJob::new(&probe("one")).tag("own")).await.unwrap()),
        id(client.enqueue_in(&mut *tx, NewJob::new(&probe("two")).tag("own")).await.unwrap()),
    ];
    let jobs = || (0..3).map(|_| NewJob::new(&probe("many")).tag("own"));
    ids.extend(client.enqueue_many(jobs()).await.unwrap().into_iter().map(id));
    ids.extend(client.enqueue_copy(&mut tx, jobs()).await.unwrap().into_iter().map(id));
    assert!(client.enqueue_many(Vec::<Probe>::new()).await.unwrap().is_empty());
    let expected: Vec<_> = [1, 1, 3, 3]
        .iter()
        .flat_map(|jobs| ["inner", "outer"].map(|name| format!("{name} enqueued {jobs}: true")))
        .collect();
    assert_eq!(log.taken(), expected);
    let rows: Vec<(i64, Vec<String>, Value, String)> =
        sqlx::query_as("select id, tags, metadata, trace_context from awa.jobs order by id")
            .fetch_all(&rig.pool)
            .await
            .unwrap();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), ids);
    for (_, tags, metadata, trace) in rows {
        assert_eq!(tags, ["own", "outer", "inner"]);
        assert_eq!((&metadata["through"], trace.as_str()), (&json!("inner"), "00-inner"));
    }
    let plain = rig.enqueue(probe("plain")).await;
    assert!(log.taken().is_empty());
    assert_eq!(rig.count("select count(*) from awa.jobs where tags is null").await, 1, "{plain}");
}

#[tokio::test]
async fn a_refusal_is_typed_and_writes_nothing() {
    let rig = Rig::new().await;
    let client = client(&rig, &Log::default());
    let refused = client.enqueue_many([probe("fine"), probe("forbidden")]).await.unwrap_err();
    let Error::Refused(reason) = &refused else { panic!("{refused}") };
    assert_eq!(reason.downcast_ref(), Some(&Forbidden("this job".to_owned())));
    assert_eq!(
        (refused.to_string(), format!("{refused:?}")),
        ("this job is forbidden".into(), "this job is forbidden".into())
    );
    let spoiled = client.enqueue(probe("spoiled")).await.unwrap_err();
    assert!(matches!(spoiled, Error::InvalidJob(_)), "{spoiled}");
    assert_eq!(rig.count("select count(*) from awa.jobs").await, 0);
}

#[tokio::test]
async fn layers_of_tower_stand_around_the_handler() {
    let rig = Rig::new().await;
    let handler = async |job: Probe, context: JobContext| match job.name.as_str() {
        "hangs" => {
            context.cancelled().await;
            Ok(Value::Null)
        }
        "fatal" => Err(JobError::fatal("broken")),
        name => Ok(json!(name)),
    };
    let layer = tower::timeout::TimeoutLayer::new(Duration::from_secs(2));
    let client = rig.client().middleware(TowerMiddleware::new(layer)).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let (fine, fatal, hangs) =
        (rig.enqueue(probe("fine")).await, rig.enqueue(probe("fatal")).await, rig.enqueue(probe("hangs")).await);
    assert_eq!(rig.state(fine, "completed").await.result, Some(json!("fine")));
    assert_eq!(rig.state(fatal, "failed").await.last_error(), "broken");
    assert!(soon("the layer", rig.state(hangs, "retryable")).await.last_error().contains("timed out"));
    drain(&running).await;
}
