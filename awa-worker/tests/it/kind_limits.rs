//! Kinds that bring a limit of their own, and time limits of queues and handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use awa_worker::{
    CancelReason, Client, Error, HandlerExt as _, JobContext, JobError, Mistake, NewJob, Outcome, QueueConfig, Worker,
};
use serde_json::Value;

use crate::support::{Gate, Other, Probe, Rig, drain, events, probe, soon, until};

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(3600);

/// Counts how many run at once, and waits at a gate.
#[derive(Clone)]
struct Crowd {
    gate: Gate,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Crowd {
    fn new() -> Self {
        Self { gate: Gate::new(), now: Arc::default(), most: Arc::default() }
    }

    async fn pass(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.gate.passed().await;
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn jobs_beyond_the_limit_of_their_kind_go_back_unspent_and_leave_the_slots_to_others() {
    let rig = Rig::new().await;
    let crowd = Crowd::new();
    let limited = {
        let crowd = crowd.clone();
        move |_: Probe| {
            let crowd = crowd.clone();
            async move {
                crowd.pass().await;
                Ok::<_, JobError>(Value::Null)
            }
        }
    };
    let client = rig
        .client()
        .queue("default", QueueConfig::new().max_workers(3))
        .register(limited.max_workers(1))
        .register(async |_: Other| Ok::<_, JobError>(()))
        .build()
        .unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(rig.enqueue(probe("limited")).await);
    }
    // Behind them: no slot is free before two of them have gone back.
    let other = rig.enqueue(Other { number: 1 }).await;
    let running = client.start().await.unwrap();
    rig.state(other, "completed").await;
    let returned = "select count(*) from awa.jobs where kind = 'probe' and run_lease > 1";
    until("claimed once more", async || rig.count(returned).await > 0).await;
    assert_eq!(crowd.now.load(Ordering::SeqCst), 1);
    crowd.gate.open();
    for id in ids {
        let row = rig.state(id, "completed").await;
        assert_eq!((row.attempt, row.errors), (1, None));
    }
    assert_eq!(crowd.most.load(Ordering::SeqCst), 1);
    assert_eq!(drain(&running).await.returned, 0);
}

#[tokio::test]
async fn a_drain_does_not_wait_for_jobs_that_wait_for_a_place() {
    let rig = Rig::new().await;
    let crowd = Crowd::new();
    let (tell, mut told) = events();
    let handler = {
        let crowd = crowd.clone();
        move |job: Probe| {
            let (crowd, tell) = (crowd.clone(), tell.clone());
            async move {
                tell.send(job.name).unwrap();
                crowd.pass().await;
                Ok::<_, JobError>(Value::Null)
            }
        }
    };
    let running = rig.client().register(handler.max_workers(1)).build().unwrap().start().await.unwrap();
    let first = rig.enqueue(probe("first")).await;
    soon("start", told.recv()).await;
    let second = rig.enqueue(probe("second")).await;
    rig.state(second, "running").await;
    let opened = async {
        let row = rig.state(second, "available").await;
        crowd.gate.open();
        row
    };
    let (report, row) = tokio::join!(drain(&running), opened);
    assert_eq!((row.attempt, report.left_to_rescue), (0, 0));
    assert_eq!(rig.row(first).await.state, "completed");
}

#[tokio::test]
async fn a_worker_type_brings_its_limits_and_a_registration_replaces_them() {
    struct Two;
    impl Worker for Two {
        type Args = Other;

        fn max_workers(&self) -> Option<usize> {
            Some(0)
        }

        async fn run(&self, _: Other, _: JobContext) -> Result<Outcome, JobError> {
            Ok(Outcome::complete())
        }
    }
    let rig = Rig::new().await;
    let Err(Error::Build(error)) = Client::builder(rig.pool.clone()).register(Two).build() else { panic!("built") };
    assert_eq!(error.mistakes(), [Mistake::NoWorkersOfKind { kind: "other" }]);
    assert!(Client::builder(rig.pool.clone()).register(Two.timeout(LONG).max_workers(2)).build().is_ok());
}

#[tokio::test]
async fn the_shortest_limit_of_job_handler_and_queue_ends_an_attempt() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |job: Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            context.cancelled().await;
            tell.send((job.name, context.cancel_reason())).unwrap();
            Err::<Value, JobError>("stopped".into())
        }
    };
    let by_handler = {
        let handler = handler.clone();
        move |_: Other, context: JobContext| {
            let stopped = handler(probe("handler"), context);
            async { stopped.await.map(|_| ()) }
        }
    };
    let client = rig
        .client()
        .queue("short", QueueConfig::new().timeout(SHORT))
        .queue("long", QueueConfig::new().timeout(LONG))
        .register(handler.timeout(LONG))
        .register(by_handler.timeout(SHORT))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    let by_queue = rig.enqueue(NewJob::new(&probe("queue")).queue("short").timeout(LONG)).await;
    let by_job = rig.enqueue(NewJob::new(&probe("job")).queue("long").timeout(SHORT)).await;
    let by_handler = rig.enqueue(NewJob::new(&Other { number: 1 }).queue("long").timeout(LONG)).await;
    for id in [by_queue, by_job, by_handler] {
        let row = rig.state(id, "retryable").await;
        assert_eq!(row.last_error(), "timed out after 50ms; asked to stop, the handler failed: stopped");
    }
    let mut names = Vec::new();
    for _ in 0..3 {
        let (name, reason) = soon("all", told.recv()).await.unwrap();
        assert_eq!(reason, Some(CancelReason::TimedOut), "{name}");
        names.push(name);
    }
    names.sort();
    assert_eq!(names, ["handler", "job", "queue"]);
    drain(&running).await;
}

#[tokio::test]
async fn a_timeout_that_no_queue_can_keep_is_a_mistake() {
    let rig = Rig::new().await;
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let built = Client::builder(rig.pool.clone())
            .queue("a", QueueConfig::new().timeout(timeout))
            .register(async |_: Probe| Ok::<_, JobError>(Value::Null))
            .build();
        let Err(Error::Build(error)) = built else { panic!("{timeout:?} was taken") };
        assert_eq!(error.mistakes(), [Mistake::QueueTimeout { queue: "a".to_owned(), timeout }]);
    }
}

#[tokio::test]
async fn a_timeout_that_no_handler_can_keep_is_a_mistake() {
    let rig = Rig::new().await;
    for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let handler = async |_: Probe| Ok::<_, JobError>(Value::Null);
        // Whichever of the registrations brings it.
        let built = Client::builder(rig.pool.clone()).register(handler.timeout(timeout).max_workers(2)).build();
        let Err(Error::Build(error)) = built else { panic!("{timeout:?} was taken") };
        assert_eq!(error.mistakes(), [Mistake::HandlerTimeout { kind: "probe", timeout }]);
    }
}
