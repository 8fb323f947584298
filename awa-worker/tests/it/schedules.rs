//! Periodic jobs as a service has them: declared with the client, run by its handler, steered while it runs.

use std::time::Duration;

use awa_worker::{
    Client, Error, JobContext, JobError, JobState, Missed, Mistake, NewJob, Overlap, Schedule, ScheduleOwner,
    ScheduleWritten, Switched,
};
use serde_json::Value;

use crate::support::{Rig, drain, events, probe, soon};

#[tokio::test]
async fn a_declared_schedule_runs_its_handler_which_knows_for_which_time() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: crate::support::Probe, context: JobContext| {
        let tell = tell.clone();
        async move {
            tell.send(context.scheduled_by()).unwrap();
            Ok::<_, JobError>(Value::Null)
        }
    };
    let client = Client::builder(rig.pool.clone())
        .register(handler)
        .schedule(Schedule::new("every second", "* * * * * *", probe("a")).overlap(Overlap::Queue))
        .build()
        .unwrap();
    let running = client.start().await.unwrap();
    let mut slots = Vec::new();
    for _ in 0..3 {
        let by = soon("a periodic job", told.recv()).await.unwrap().unwrap();
        assert_eq!(by.name, "every second");
        slots.push(by.slot);
    }
    assert!(slots.is_sorted_by(|earlier, later| earlier < later), "{slots:?}");
    assert_eq!(client.pause_schedule("every second").await.unwrap(), Switched::Applied);
    let status = client.schedule_status("every second").await.unwrap().unwrap();
    assert_eq!((status.owner.as_deref(), status.next_at), (Some("default"), None));
    assert!(status.paused_at.is_some());
    let ticks = client.schedule_ticks("every second", 100).await.unwrap();
    assert!(ticks.len() >= 3 && ticks.iter().all(|tick| tick.job.is_some()), "{ticks:?}");
    drain(&running).await;
}

#[tokio::test]
async fn a_job_that_was_enqueued_by_hand_has_no_schedule() {
    let rig = Rig::new().await;
    let (tell, mut told) = events();
    let handler = move |_: crate::support::Probe, context: JobContext| {
        tell.send(context.scheduled_by()).unwrap();
        async { Ok::<_, JobError>(Value::Null) }
    };
    let running = rig.client().register(handler).build().unwrap().start().await.unwrap();
    rig.enqueue(NewJob::new(&probe("a")).metadata(serde_json::json!({ "$schedule": 7 }))).await;
    assert_eq!(soon("a job", told.recv()).await.unwrap(), None);
    drain(&running).await;
}

#[tokio::test]
async fn schedules_are_set_listed_run_and_deleted_while_the_service_runs() {
    let rig = Rig::new().await;
    let client = Client::builder(rig.pool.clone()).build().unwrap();
    let daily = || Schedule::new("daily", "0 3 * * *", probe("a")).timezone("Europe/Berlin").missed(Missed::Skip);
    assert_eq!(client.set_schedule(daily()).await.unwrap(), ScheduleWritten::Created);
    assert_eq!(client.set_schedule(daily()).await.unwrap(), ScheduleWritten::Unchanged);
    let inserted = client.run_schedule("daily").await.unwrap().unwrap();
    let status = client.job_status(inserted.id()).await.unwrap().unwrap();
    assert_eq!(status.state, JobState::Available);
    let all = client.schedules().await.unwrap();
    assert_eq!((all.len(), all[0].name.as_str(), all[0].timezone.as_str()), (1, "daily", "Europe/Berlin"));
    assert!(client.delete_schedule("daily").await.unwrap());
    assert!(!client.delete_schedule("daily").await.unwrap());
    let refused = client.set_schedule(Schedule::new("never", "0 0 30 2 *", probe("a"))).await.unwrap_err();
    assert!(matches!(refused, Error::InvalidSchedule(_)), "{refused}");
}

#[tokio::test]
async fn a_service_that_runs_no_jobs_declares_its_schedules_too() {
    let rig = Rig::new().await;
    let client = |revision| {
        let owner = ScheduleOwner::new("shop").revision(revision).delete_undeclared();
        let name = format!("of {revision}");
        Client::builder(rig.pool.clone())
            .schedule_owner(owner)
            .schedule(Schedule::new(name, "@daily", probe("a")))
            .build()
    };
    let written = client(1).unwrap().declare_schedules().await.unwrap();
    assert_eq!(written, [("of 1".to_owned(), ScheduleWritten::Created)]);
    let written = client(2).unwrap().declare_schedules().await.unwrap();
    assert_eq!(written, [("of 2".to_owned(), ScheduleWritten::Created), ("of 1".to_owned(), ScheduleWritten::Deleted)]);
    let written = client(1).unwrap().declare_schedules().await.unwrap();
    assert_eq!(written, [("of 1".to_owned(), ScheduleWritten::Outdated)]);
}

#[tokio::test]
async fn schedules_that_cannot_be_are_mistakes_of_the_builder() {
    let rig = Rig::new().await;
    let built = Client::builder(rig.pool.clone())
        .schedule(Schedule::new("february", "0 0 30 2 *", probe("a")))
        .schedule(Schedule::new("moon", "@daily", probe("a")).timezone("Moon"))
        .schedule(Schedule::new("later", "@daily", NewJob::new(&probe("a")).run_in(Duration::from_secs(1))))
        .schedule(Schedule::new("later", "@daily", probe("a")))
        .schedule_owner(ScheduleOwner::new(""))
        .build();
    let Err(Error::Build(error)) = built else { panic!("built") };
    let mistakes = error.mistakes();
    assert_eq!(mistakes.len(), 4, "{error}");
    assert!(matches!(&mistakes[0], Mistake::InvalidSchedule { schedule, .. } if schedule == "february"), "{error}");
    assert!(matches!(&mistakes[1], Mistake::InvalidSchedule { schedule, .. } if schedule == "moon"), "{error}");
    assert!(matches!(&mistakes[2], Mistake::InvalidSchedule { schedule, .. } if schedule == "later"), "{error}");
    assert!(matches!(&mistakes[3], Mistake::InvalidOwner { .. }), "{error}");
    let twice = Client::builder(rig.pool.clone())
        .schedule(Schedule::new("a", "@daily", probe("a")))
        .schedule(Schedule::new("a", "@hourly", probe("a")))
        .build();
    let Err(Error::Build(error)) = twice else { panic!("built") };
    assert_eq!(error.mistakes(), [Mistake::ScheduleTwice { schedule: "a".to_owned() }]);
}
