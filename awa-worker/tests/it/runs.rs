//! The ordinary ways of an attempt to end.

use std::time::Duration;

use awa_worker::{
    Client, Data, HandlerExt as _, JobContext, JobError, NewJob, Outcome, ResultExt as _, RetryPolicy, Worker,
};
use serde_json::{Value, json};

use crate::support::{Other, Probe, Rig, drain, events, probe, soon};

#[tokio::test]
async fn job_runs_and_its_result_is_kept() {
    let rig = Rig::new().await;
    let handler = async |job: Probe, context: JobContext, suffix: Data<String>| {
        assert_eq!((context.attempt(), context.kind().as_str()), (1, "probe"));
        Ok::<_, JobError>(json!(format!("{}{}", job.name, *suffix)))
    };
    let client = rig.client().register(handler).data("!".to_owned()).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let row = rig.state(id, "completed").await;
    assert_eq!(row.result, Some(json!("a!")));
    assert_eq!((row.attempt, row.run_lease, &row.errors, &row.progress), (1, 1, &None, &None));
    drain(&running).await;
}

#[tokio::test]
async fn job_without_output_keeps_no_result() {
    let rig = Rig::new().await;
    let client = rig.client().register(async |_: Other| Ok::<_, JobError>(())).build().unwrap();
    let id = rig.enqueue(Other { number: 1 }).await;
    let running = client.start().await.unwrap();
    assert_eq!(rig.state(id, "completed").await.result, None);
    drain(&running).await;
}

#[tokio::test]
async fn failed_attempt_is_tried_again_and_its_error_kept() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| match context.attempt() {
        1 => Err("not yet")?,
        attempt => Ok::<_, JobError>(json!(attempt)),
    };
    let client = rig.client().register(handler.with_retry(RetryPolicy::fixed(Duration::ZERO))).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let row = rig.state(id, "retryable").await;
    assert_eq!((row.attempt, row.last_error()), (1, "not yet"));
    rig.promote().await;
    let row = rig.state(id, "completed").await;
    assert_eq!((row.attempt, row.run_lease, row.result.clone()), (2, 2, Some(json!(2))));
    assert_eq!(row.last_error(), "not yet");
    drain(&running).await;
}

#[tokio::test]
async fn last_attempt_that_fails_is_final() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| -> Result<Value, JobError> {
        assert!(context.is_last_attempt());
        Err("no luck")?
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(NewJob::new(&probe("a")).max_attempts(1)).await;
    assert_eq!(rig.state(id, "failed").await.last_error(), "no luck");
    drain(&running).await;
}

#[tokio::test]
async fn fatal_errors_end_the_job_however_they_are_marked() {
    let rig = Rig::new().await;
    let handler = async |job: Probe| -> Result<Value, JobError> {
        match job.name.as_str() {
            "by result" => Err::<Value, _>("broken").fatal(),
            "by error" => Err(JobError::fatal("broken")),
            _ => Err("broken".parse::<i32>().unwrap_err())?,
        }
    };
    let client = rig.client().register(handler.fatal_if(|_: &std::num::ParseIntError| true)).build().unwrap();
    let running = client.start().await.unwrap();
    for name in ["by result", "by error", "by type"] {
        let id = rig.enqueue(probe(name)).await;
        let row = rig.state(id, "failed").await;
        assert_eq!(row.attempt, 1, "{name}");
        assert!(!row.last_error().is_empty(), "{name}");
    }
    drain(&running).await;
}

#[tokio::test]
async fn snooze_costs_no_attempt() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| {
        assert_eq!(context.attempt(), 1);
        Ok::<_, JobError>(match context.snoozes() {
            0 => Outcome::snooze(Duration::from_secs(3600)),
            snoozes => Outcome::complete_with(json!(snoozes)),
        })
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(NewJob::new(&probe("a")).max_attempts(1)).await;
    let row = rig.state(id, "scheduled").await;
    assert_eq!((row.attempt, row.snoozes, row.errors), (0, 1, None));
    rig.promote().await;
    assert_eq!(rig.state(id, "completed").await.result, Some(json!(1)));
    drain(&running).await;
}

// RANGE-04
#[tokio::test]
async fn delays_beyond_all_measure_are_cut_to_their_limit_and_never_come_at_once() {
    let rig = Rig::new().await;
    let handler = async |job: Probe| {
        let (what, span) = job.name.split_once(' ').unwrap();
        let span = match span {
            "ever" => Duration::MAX,
            "century" => Duration::from_secs(100 * 366 * 24 * 3600),
            _ => Duration::from_nanos(span.parse()?),
        };
        match what {
            "snooze" => Ok::<Outcome<Value>, JobError>(Outcome::snooze(span)),
            _ => Err(JobError::retryable("later").retry_after(span)),
        }
    };
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    for (name, state, years) in [
        ("snooze ever", "scheduled", 1000),
        ("snooze century", "scheduled", 100),
        ("snooze 0", "scheduled", 0),
        ("snooze 1", "scheduled", 0),
        ("retry ever", "retryable", 10),
        ("retry 0", "retryable", 0),
        ("retry 1", "retryable", 0),
    ] {
        let id = rig.enqueue(probe(name)).await;
        rig.state(id, state).await;
        let due =
            "select floor(extract(epoch from run_at - now()) / 31622400 + 0.001)::bigint from awa.jobs where id = $1";
        let ahead: i64 = sqlx::query_scalar(due).bind(id).fetch_one(&rig.pool).await.unwrap();
        // A delay of nothing may be over by now.
        assert_eq!(ahead.max(0), years, "{name}");
    }
    drain(&running).await;
}

#[tokio::test]
async fn handler_can_cancel_its_job() {
    let rig = Rig::new().await;
    let handler = async |_: Probe| Ok::<Outcome<Value>, JobError>(Outcome::cancel("nobody wants it any more"));
    let client = rig.client().register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    assert_eq!(rig.state(id, "cancelled").await.last_error(), "nobody wants it any more");
    drain(&running).await;
}

// STUCK-06: args that no longer fit.
#[tokio::test]
async fn args_that_do_not_fit_fail_the_attempt_and_nothing_else() {
    let rig = Rig::new().await;
    let client = rig.client().register(async |job: Probe| Ok::<_, JobError>(json!(job.name))).build().unwrap();
    let mut good = Vec::new();
    for number in 0..20 {
        good.push(rig.enqueue(probe(&format!("good {number}"))).await);
    }
    let bad = rig.enqueue(NewJob::new(&probe("bad")).max_attempts(2)).await;
    rig.execute(r#"update awa.jobs_hot set args = '{"nom": 7}' where args = '{"name": "bad"}'"#).await;
    let running = client.start().await.unwrap();
    let row = rig.state(bad, "retryable").await;
    assert!(row.last_error().contains("do not fit") && row.last_error().contains("missing field `name`"), "{row:?}");
    for id in good {
        rig.state(id, "completed").await;
    }
    rig.promote().await;
    assert_eq!(rig.state(bad, "failed").await.attempt, 2);
    drain(&running).await;
}

#[tokio::test]
async fn worker_types_choose_timeout_and_backoff() {
    struct Sums;
    impl Worker for Sums {
        type Args = Other;

        fn retry_policy(&self) -> Option<RetryPolicy> {
            Some(RetryPolicy::fixed(Duration::from_secs(1000)))
        }

        async fn run(&self, job: Other, _: JobContext) -> Result<Outcome, JobError> {
            if job.number == 0 { Err("zero")? } else { Ok(Outcome::complete()) }
        }
    }
    let rig = Rig::new().await;
    let client = rig.client().register(Sums).build().unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(Other { number: 0 }).await;
    rig.state(id, "retryable").await;
    let far = "select count(*) from awa.scheduled_jobs where run_at > now() + interval '900 seconds'";
    assert_eq!(rig.count(far).await, 1);
    drain(&running).await;
}

#[tokio::test]
async fn two_workers_share_a_queue_and_run_no_job_twice() {
    const JOBS: i64 = 500;
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let worker = |tell: tokio::sync::mpsc::UnboundedSender<i64>| {
        let handler = move |job: Other| {
            let _ = tell.send(job.number);
            async { Ok::<_, JobError>(()) }
        };
        rig.client().register(handler).build().unwrap()
    };
    let (one, other): (Client, Client) = (worker(tell.clone()), worker(tell));
    let (one, other) = (one.start().await.unwrap(), other.start().await.unwrap());
    awa_worker::enqueue_many(&rig.pool, (0..JOBS).map(|number| Other { number })).await.unwrap();
    let mut ran = Vec::new();
    for _ in 0..JOBS {
        ran.push(soon("all jobs", told.recv()).await.unwrap());
    }
    drain(&one).await;
    drain(&other).await;
    assert!(told.try_recv().is_err(), "a job ran twice");
    ran.sort_unstable();
    assert_eq!(ran, (0..JOBS).collect::<Vec<_>>());
    assert_eq!(rig.count("select count(*) from awa.jobs where state = 'completed' and attempt = 1").await, JOBS);
    assert_eq!(rig.count("select count(*) from awa.workers").await, 0);
}

#[tokio::test]
async fn worker_alone_promotes_and_retries_by_its_own_maintenance() {
    let rig = Rig::new().await;
    let handler = async |_: Probe, context: JobContext| match context.attempt() {
        1 => Err("not yet")?,
        attempt => Ok::<_, JobError>(json!(attempt)),
    };
    let client = Client::builder(rig.pool.clone())
        .register(handler.with_retry(RetryPolicy::fixed(Duration::from_millis(10))))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    let id = rig.enqueue(probe("a")).await;
    let late = rig.enqueue(NewJob::new(&probe("b")).run_in(Duration::from_millis(10))).await;
    for id in [id, late] {
        assert_eq!(rig.state(id, "completed").await.attempt, 2);
    }
    drain(&running).await;
}
