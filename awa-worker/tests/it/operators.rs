//! What operators do to jobs that run: the handler is told, and whatever it says later changes nothing.

use std::time::Duration;

use awa_worker::fleet::WarningCode;
use awa_worker::why::Reason;
use awa_worker::{
    Client, DutyName, JobContext, JobEdit, JobError, JobId, JobState, NewJob, Operated, QueueConfig, Unique,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::support::{Gate, Other, Probe, Rig, drain, events, probe, soon, until};

/// A client whose handlers wait at a gate, whatever they are told.
fn gated(rig: &Rig, gate: &Gate) -> (Client, UnboundedReceiver<JobContext>) {
    let (tell, told) = events();
    let gate = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), gate.clone());
        async move {
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(json!("late"))
        }
    };
    let queue = QueueConfig::new().max_workers(64);
    (rig.client().queue("default", queue).register(handler).build().unwrap(), told)
}

#[tokio::test]
async fn a_cancelled_attempt_is_told_and_its_late_result_is_ignored() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = gated(&rig, &gate);
    let running = client.start().await.unwrap();
    let id = JobId::<Probe>::new(rig.enqueue(probe("a")).await);
    let attempt = soon("start", told.recv()).await.unwrap();
    assert_eq!(client.cancel(id, Some("not needed")).await.unwrap(), Operated::Applied);
    soon("word of it", attempt.cancelled()).await;
    let cancelled = rig.row(id.get()).await;
    assert_eq!((cancelled.state.as_str(), cancelled.last_error()), ("cancelled", "not needed"));
    gate.open();
    drain(&running).await;
    assert_eq!(rig.row(id.get()).await, cancelled);
    assert_eq!(client.cancel(id, None).await.unwrap(), Operated::Unchanged);
}

#[tokio::test]
async fn a_job_that_is_cancelled_and_retried_while_its_handler_runs_belongs_to_the_new_attempt() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = gated(&rig, &gate);
    let running = client.start().await.unwrap();
    let id = JobId::<Probe>::new(rig.enqueue(probe("a")).await);
    let first = soon("start", told.recv()).await.unwrap();
    assert_eq!(client.cancel(id, None).await.unwrap(), Operated::Applied);
    assert_eq!(client.retry(id).await.unwrap(), Operated::Applied);
    let second = soon("the next attempt", told.recv()).await.unwrap();
    assert!(second.run_lease() > first.run_lease(), "run_lease never falls (I2)");
    assert_eq!(second.attempt(), 1);
    soon("word of it", first.cancelled()).await;
    gate.open();
    drain(&running).await;
    assert_eq!(rig.row(id.get()).await.state, "completed");
}

// STATE-06: with every slot taken, with and without LISTEN, called off by another process. STATE-09: while the worker drains.
#[tokio::test]
async fn a_busy_and_a_draining_worker_hear_that_their_job_is_cancelled_with_and_without_listen() {
    for (listens, drains) in [(true, false), (false, false), (true, true), (false, true)] {
        let rig = Rig::new().await;
        let (tell, mut told) = events();
        // Runs until it is told to stop.
        let handler = move |_: Probe, context: JobContext| {
            tell.send(context.clone()).unwrap();
            async move {
                context.cancelled().await;
                Ok::<Value, JobError>(json!("late"))
            }
        };
        let mut builder = rig.client().queue("default", QueueConfig::new().max_workers(1)).register(handler);
        if !listens {
            builder = builder.without_listen();
        }
        let running = builder.build().unwrap().start().await.unwrap();
        let id = JobId::<Probe>::new(rig.enqueue(probe("runs")).await);
        let attempt = soon("start", told.recv()).await.unwrap();
        let elsewhere = rig.client().build().unwrap();
        let cancel = async {
            assert_eq!(elsewhere.cancel(id, None).await.unwrap(), Operated::Applied);
            soon("word of it", attempt.cancelled()).await;
        };
        if drains {
            let ((), report) = tokio::join!(cancel, drain(&running));
            assert_eq!((report.returned, report.left_to_rescue), (0, 0), "listens: {listens}");
        } else {
            let waits = rig.enqueue(probe("waits for the slot")).await;
            cancel.await;
            rig.state(waits, "running").await;
            drop(running);
        }
        assert_eq!(rig.row(id.get()).await.state, "cancelled", "listens: {listens}, drains: {drains}");
    }
}

// STATE-05
#[tokio::test]
async fn a_running_job_that_is_deleted_costs_nobody_else_anything() {
    for statement in [
        "delete from awa.jobs where id = $",
        "delete from awa.jobs_hot where id = $",
        "select from awa.delete_job($)",
        "select from awa.delete_jobs(array[$])",
    ] {
        let rig = Rig::new().await;
        let gate = Gate::new();
        let (client, mut told) = gated(&rig, &gate);
        let running = client.start().await.unwrap();
        let jobs = (0..50).map(|n| NewJob::new(&probe(&n.to_string())).unique(Unique::until_finished()));
        let ids: Vec<_> = client.enqueue_many(jobs).await.unwrap().into_iter().map(|job| job.id()).collect();
        let mut attempts = Vec::new();
        for _ in 0..50 {
            attempts.push(soon("start", told.recv()).await.unwrap());
        }
        // Heartbeats and progress are being written all the while.
        for attempt in &attempts {
            attempt.progress().set(50, "half").unwrap();
        }
        let deleted = ids[17];
        let statement = statement.replace('$', &deleted.to_string());
        sqlx::raw_sql(sqlx::AssertSqlSafe(statement.clone())).execute(&rig.pool).await.expect(&statement);
        let lost = attempts.iter().find(|attempt| attempt.job_id() == deleted.untyped()).unwrap();
        soon("word of it", lost.cancelled()).await;
        gate.open();
        until("the others", async || {
            rig.count("select count(*) from awa.jobs where state = 'completed' and result = '\"late\"'").await == 49
        })
        .await;
        assert_eq!(rig.count("select count(*) from awa.jobs").await, 49, "{statement}");
        assert_eq!(rig.count("select count(*) from awa.job_unique_claims").await, 0, "{statement}");
        // Its key is free, and the worker lives.
        let again = NewJob::new(&probe("17")).unique(Unique::until_finished());
        let again = client.enqueue(again).await.unwrap();
        assert!(again.is_new());
        rig.state(again.id().get(), "completed").await;
        drain(&running).await;
    }
}

#[tokio::test]
async fn the_client_does_what_operators_do_from_sql() {
    let rig = Rig::new().await;
    let client = rig.client().build().unwrap();
    let later = NewJob::new(&probe("a")).run_in(Duration::from_secs(3600));
    let id = client.enqueue(later).await.unwrap().id();
    assert_eq!(client.edit(id, JobEdit::new().priority(1).tags(["x"])).await.unwrap(), Operated::Applied);
    assert_eq!(client.edit(id, JobEdit::new().priority(1)).await.unwrap(), Operated::Unchanged);
    let refused = client.edit(id, JobEdit::new().priority(9)).await.unwrap_err();
    assert_eq!(refused.to_string(), "priority is 9; it must be 1 to 4");
    assert_eq!(client.run_now(id).await.unwrap(), Operated::Applied);
    assert_eq!(client.retry(id).await.unwrap(), Operated::Unchanged);
    assert_eq!(client.cancel_many(&[id.untyped()], None).await.unwrap(), [(id.untyped(), Operated::Applied)]);
    assert_eq!(client.run_now(id).await.unwrap(), Operated::Refused { state: JobState::Cancelled });
    assert_eq!(client.retry_many(&[id.untyped()]).await.unwrap(), [(id.untyped(), Operated::Applied)]);
    let status = client.job_status(id).await.unwrap().unwrap();
    assert_eq!((status.state, status.priority.get(), status.paused), (JobState::Available, 1, false));
    assert_eq!(client.run_now_many(&[id.untyped()]).await.unwrap(), [(id.untyped(), Operated::Unchanged)]);
    assert_eq!(client.delete_job(id).await.unwrap(), Operated::Applied);
    assert_eq!(client.delete_jobs(&[id.untyped()]).await.unwrap(), [(id.untyped(), Operated::NotFound)]);
    assert!(client.job_status(id).await.unwrap().is_none());
    let many = [NewJob::new(&probe("a")), NewJob::new(&probe("b")).priority(9)];
    let refused = client.enqueue_many(many).await.unwrap_err();
    assert_eq!(refused.to_string(), "jobs[1].priority is 9; it must be 1 to 4");
    assert!(client.pause_queue("").await.unwrap_err().to_string().contains("queue is empty"));
}

#[tokio::test]
async fn why_a_job_is_not_running_follows_it_from_a_paused_queue_to_its_end() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (client, mut told) = gated(&rig, &gate);
    client.pause_queue("default").await.unwrap();
    let running = client.start().await.unwrap();
    let id = JobId::<Probe>::new(rig.enqueue(probe("a")).await);
    let reasons = async || {
        let why = client.why(id).await.unwrap().unwrap();
        why.reasons.into_iter().map(|because| because.reason).collect::<Vec<_>>()
    };
    let paused = reasons().await;
    assert!(matches!(paused.as_slice(), [Reason::Paused, Reason::Next(line)] if line.workers == 1), "{paused:?}");
    client.resume_queue("default").await.unwrap();
    let attempt = soon("start", told.recv()).await.unwrap();
    let begun = reasons().await;
    let [Reason::Running(run)] = begun.as_slice() else { panic!("{begun:?}") };
    assert_eq!((run.attempt, run.pid), (1, Some(i32::try_from(std::process::id()).unwrap())));
    drop(attempt);
    gate.open();
    drain(&running).await;
    assert!(matches!(reasons().await.as_slice(), [Reason::Finished(end)] if end.state == JobState::Completed));
    assert_eq!(client.delete_job(id).await.unwrap(), Operated::Applied);
    assert_eq!(client.why(id).await.unwrap(), None);
}

#[tokio::test]
async fn the_query_of_the_page_finds_the_jobs_that_nobody_runs() {
    let page = include_str!("../../../docs/operating.md");
    let (_, section) = page.split_once("### Jobs that nobody runs").expect("the heading is there");
    let query = section.split("```sql").nth(1).and_then(|rest| rest.split("```").next()).expect("a query");
    let rig = Rig::new().await;
    let (client, _told) = gated(&rig, &Gate::new());
    assert!(client.pause_queue("default").await.unwrap());
    let running = client.start().await.unwrap();
    let _ = rig.enqueue(probe("of a kind and a queue that are served")).await;
    let _ = rig.enqueue(Other { number: 1 }).await;
    let _ = rig.enqueue(NewJob::new(&probe("elsewhere")).queue("nobodys")).await;
    let found: Vec<(String, String, i64)> =
        sqlx::query_as(sqlx::AssertSqlSafe(format!("{} order by 1", query.trim().trim_end_matches(';'))))
            .fetch_all(&rig.pool)
            .await
            .unwrap();
    let lost = |kind: &str, queue: &str| (kind.to_owned(), queue.to_owned(), 1);
    assert_eq!(found, [lost("other", "default"), lost("probe", "nobodys")]);
    drain(&running).await;
}

#[tokio::test]
async fn the_status_tells_of_the_worker_that_leads_and_of_the_queue_it_serves() {
    let rig = Rig::new().await;
    let gate = Gate::new();
    let (tell, mut told) = events();
    let waiting = gate.clone();
    let handler = move |_: Probe, context: JobContext| {
        let (tell, gate) = (tell.clone(), waiting.clone());
        async move {
            tell.send(context).unwrap();
            gate.passed().await;
            Ok::<Value, JobError>(json!("late"))
        }
    };
    let client = Client::builder(rig.pool.clone()).register(handler).build().unwrap();
    let running = client.start().await.unwrap();
    rig.enqueue(probe("a")).await;
    soon("start", told.recv()).await.unwrap();
    until("it leads", async || client.status().await.unwrap().leader.is_some()).await;
    let status = client.status().await.unwrap();
    let [worker] = status.workers.as_slice() else { panic!("{status:?}") };
    assert!(worker.is_alive && status.leader.is_some_and(|leader| leader.worker == worker.id));
    let [queue] = status.queues.as_slice() else { panic!("{:?}", status.queues) };
    assert_eq!((queue.name.as_str(), queue.workers, queue.running, queue.available), ("default", 1, 1, 0));
    gate.open();
    drain(&running).await;
    let status = client.status().await.unwrap();
    assert!(status.workers.is_empty() && status.leader.is_none(), "both have been given up");
}

#[tokio::test]
async fn the_status_of_a_healthy_fleet_tells_of_every_duty_and_warns_of_nothing() {
    let rig = Rig::new().await;
    let handler = async |_: Probe| Ok::<_, JobError>(json!("done"));
    let second = Duration::from_secs(1);
    let builder = Client::builder(rig.pool.clone()).heartbeat_interval(second).stale_after(second * 6);
    let client = builder.register(handler).build().unwrap();
    assert_eq!(client.status().await.unwrap().warnings[0].code, WarningCode::NoLeader);
    let running = client.start().await.unwrap();
    rig.enqueue(probe("a")).await;
    rig.enqueue(NewJob::new(&probe("b")).run_in(Duration::from_millis(1))).await;
    until("a report of each", async || client.status().await.unwrap().duties.iter().all(|duty| duty.is_led)).await;
    let status = client.status().await.unwrap();
    assert_eq!(status.duties.len(), DutyName::ALL.len());
    assert!(status.duties.iter().all(|duty| duty.passes > 0 && !duty.is_late && duty.failures == 0), "{status:?}");
    assert_eq!(status.warnings, []);
    drain(&running).await;
}
