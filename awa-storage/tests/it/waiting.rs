//! Scenes for the tests of callbacks: jobs that run with a callback open, and jobs that wait for one.

use std::time::Duration;

use awa_model::{CallbackId, JobState};
use awa_storage::{
    Claimed, Error, Guarded,
    callback::{self, Answered, ExpireCursor, Expired},
    settle::{Settlement, Verdict, settle_many},
};
use sqlx::{PgExecutor, PgPool};

use crate::scene::{row, run, running};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// An attempt that runs and has opened a callback.
pub(crate) async fn opened(pool: &PgPool) -> (Claimed, CallbackId) {
    let job = running(pool, "noop", 1).await.1.remove(0);
    let callback = open(pool, &job).await;
    (job, callback)
}

pub(crate) async fn open(pool: &PgPool, job: &Claimed) -> CallbackId {
    match callback::open(pool, &job.lease.held(), HOUR).await.expect("an answer") {
        Guarded::Applied(callback) => callback,
        Guarded::Lost => panic!("the lease of {:?} is lost", job.lease),
    }
}

/// A job that waits for a callback: its id, and the callback.
pub(crate) async fn parked(pool: &PgPool) -> (i64, CallbackId) {
    let (job, callback) = opened(pool).await;
    let id = job.lease.job_id().get();
    assert_eq!(park(pool, job, callback).await, Guarded::Applied(JobState::WaitingExternal));
    (id, callback)
}

pub(crate) async fn park(pool: &PgPool, job: Claimed, callback: CallbackId) -> Guarded<JobState> {
    settle_many(pool, &[parking(job, callback)]).await.expect("settled")[0]
}

pub(crate) fn parking(job: Claimed, callback: CallbackId) -> Settlement {
    Settlement { lease: job.lease, verdict: Verdict::Park { callback }, progress: None }
}

/// One of the ways to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Complete,
    Resume,
    Fail,
}

impl Answer {
    pub(crate) const ALL: [Self; 3] = [Self::Complete, Self::Resume, Self::Fail];

    pub(crate) async fn give(self, db: impl PgExecutor<'_>, callback: CallbackId) -> Result<Answered, Error> {
        match self {
            Self::Complete => callback::complete(db, callback, Some(r#"{"n": 1}"#)).await,
            Self::Resume => callback::resume(db, callback, Some(r#"{"n": 1}"#)).await,
            Self::Fail => callback::fail(db, callback, "no such customer").await,
        }
    }

    /// The state in which it leaves a job that waits.
    pub(crate) fn state(self) -> JobState {
        match self {
            Self::Complete => JobState::Completed,
            Self::Resume => JobState::Available,
            Self::Fail => JobState::Failed,
        }
    }

    /// The statement, for sessions that step.
    pub(crate) fn sql(self, callback: CallbackId) -> String {
        match self {
            Self::Complete => format!("select awa.callback_complete('{callback}', '{{\"n\": 1}}')"),
            Self::Resume => format!("select awa.callback_resume('{callback}', '{{\"n\": 1}}')"),
            Self::Fail => format!("select awa.callback_fail('{callback}', 'no such customer')"),
        }
    }
}

/// Lets every callback be due.
pub(crate) async fn make_due(pool: &PgPool) {
    run(pool, "update awa.callbacks set due_at = now() - interval '1 second'").await;
}

/// One pass over all callbacks that are due.
pub(crate) async fn expire(pool: &PgPool) -> Expired {
    let expired = callback::expire(pool, ExpireCursor::default(), 1000).await.expect("a pass");
    assert_eq!(expired.next, None);
    expired
}

pub(crate) async fn state(pool: &PgPool, id: i64) -> String {
    row(pool, id).await["state"].as_str().expect("a state").to_owned()
}
