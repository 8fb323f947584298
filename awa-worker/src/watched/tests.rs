//! Looks, hints and limits of the poller, without a server: each step is made by hand.

use awa_model::{JobState, Kind, Priority, QueueName};
use chrono::DateTime;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn status(state: JobState) -> JobStatus {
    JobStatus {
        id: JobId::new(1),
        kind: Kind::new("probe").unwrap(),
        queue: QueueName::new("default").unwrap(),
        state,
        priority: Priority::new(2).unwrap(),
        attempt: 1,
        max_attempts: 25,
        run_at: DateTime::UNIX_EPOCH,
        created_at: DateTime::UNIX_EPOCH,
        attempted_at: None,
        finalized_at: None,
        progress: None,
        result: None,
        error: None,
        paused: false,
    }
}

#[test]
fn a_job_is_looked_at_ever_more_seldom_until_it_changes() {
    let start = Instant::now();
    let mut job = Job::new(0, start);
    let mut pause = |after, state| {
        let now = start + after;
        job.saw(Some(status(state)), now);
        job.due - now
    };
    assert_eq!(pause(Duration::ZERO, JobState::Available), LOOK_PAUSES.0);
    assert_eq!(pause(2 * SECOND, JobState::Available), SECOND / 2);
    assert_eq!(pause(3600 * SECOND, JobState::Available), LOOK_PAUSES.1);
    assert_eq!(pause(3601 * SECOND, JobState::Running), LOOK_PAUSES.0);
}

#[test]
fn a_job_is_gone_only_if_it_was_seen_and_is_missed_twice() {
    let now = Instant::now();
    let mut job = Job::new(0, now);
    let mut gone = |status| {
        job.saw(status, now);
        job.sight.borrow().gone
    };
    assert!(![gone(None), gone(None), gone(None)].contains(&true), "it may not be committed yet");
    assert!(!gone(Some(status(JobState::Running))));
    assert!(!gone(None));
    assert!(!gone(Some(status(JobState::Running))));
    assert!(!gone(None));
    assert!(gone(None));
}

/// Watches through a pool that reaches no server.
fn unreachable() -> Arc<Watched> {
    let options = PgConnectOptions::new_without_pgpass().host("/nowhere");
    Watched::new(PgPoolOptions::new().connect_lazy_with(options))
}

#[tokio::test]
async fn a_hint_makes_a_job_due_at_once_also_during_a_look_that_began_before_it() {
    let watched = unreachable();
    let id = JobId::new(1);
    let _waiter = watched.join(id).expect("room");
    let is_due = || watched.due().iter().any(|(due, _)| *due == id);
    let asked = watched.due();
    watched.lock().jobs.get_mut(&id).unwrap().stirred -= 100 * SECOND;
    watched.saw(&asked, vec![]);
    assert!(!is_due(), "its next look is a second away");
    watched.settled([JobId::new(2)]);
    assert!(!is_due(), "that was another job");
    let asked = vec![(id, watched.lock().jobs[&id].hints)];
    watched.settled([id]);
    assert!(is_due());
    watched.saw(&asked, vec![]);
    assert!(is_due(), "what the look saw may be older than the hint");
}

#[tokio::test]
async fn waiters_are_limited_and_leave_nothing_behind() {
    let watched = unreachable();
    let most = i64::try_from(WATCHED_MAX).unwrap();
    let waiters: Vec<_> = (0..most).map(|id| watched.join(JobId::new(id)).expect("room")).collect();
    assert!(watched.join(JobId::new(most)).is_none());
    let second = watched.join(JobId::new(0)).expect("it is looked at already");
    drop(waiters);
    assert_eq!(watched.lock().jobs.len(), 1);
    drop(second);
    assert_eq!((watched.lock().jobs.len(), watched.count.load(Ordering::Acquire)), (0, 0));
    while watched.lock().polling {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_joins_after_the_end_is_not_told_of_a_life_that_is_over() {
    let watched = unreachable();
    let id = JobId::new(1);
    let mut first = watched.join(id).expect("room");
    watched.saw(&[(id, 0)], vec![status(JobState::Failed)]);
    let mut second = watched.join(id).expect("room");
    assert!(first.sight().status.is_some(), "the one who waited has its answer");
    assert!(second.sight().status.is_none(), "it may have been retried since");
    drop(first);
    assert_eq!(watched.lock().jobs[&id].waiters, 1);
}
