//! Periodic jobs: declared by applications, set by hand, enqueued by whoever leads.
//!
//! When a schedule is due is worked out in Rust ([`awa_model::Slots`]); what is written about it goes in one statement each, guarded by
//! the schedule's revision and by the time that was next when it was decided. So of two leaders one enqueues a job, and a
//! process that dies on the way leaves the time handled with its job, or not handled.

mod due;
mod job_json;

use awa_model::{CronExpression, Inserted, JobId, PreparedSchedule};
use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

pub use self::due::{Due, DueSchedule, Fired, Outcome, due, fire, fire_waiting, plan, prune_ticks};
use crate::Error;

/// What became of a wish to declare or set a schedule.
#[must_use = "the schedule may not be what was asked for"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Written {
    /// It is new.
    Created,
    /// It was another.
    Changed,
    /// It was so already.
    Unchanged,
    /// Somebody else has a schedule of that name: another application, or one was set by hand. That one was left alone.
    Owned,
    /// A newer revision of the application has declared its schedules: nothing was changed.
    Outdated,
    /// It is not declared any more and was deleted.
    Deleted,
}

/// What became of a wish to pause or resume a schedule.
#[must_use = "there may be no such schedule"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// It is done.
    Applied,
    /// It was so already.
    Unchanged,
    /// There is no such schedule.
    NotFound,
}

/// All that an application declares.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The application.
    pub owner: String,
    /// The revision of its code: an older one than was declared before changes nothing.
    pub revision: i64,
    /// Its schedules, each name once.
    pub schedules: Vec<PreparedSchedule>,
    /// Whether schedules of this application that are not among these are deleted.
    pub deletes_others: bool,
}

/// A schedule as it is stored, and how it is doing.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScheduleStatus {
    /// What tells it from all others.
    pub name: String,
    /// Its cron expression.
    pub expression: String,
    /// The zone on whose clocks that is read.
    pub timezone: String,
    /// What it enqueues: an object whose keys are the options of `awa.enqueue`.
    pub job: serde_json::Value,
    /// What becomes of times that were missed: `coalesce`, `skip` or `catch_up`.
    pub missed: String,
    /// How many are made up, for `catch_up`.
    pub catch_up_max: Option<i32>,
    /// What happens while an earlier job has not ended: `allow`, `skip` or `queue`.
    pub overlap: String,
    /// The application that declares it; `None` for one that was set by hand.
    pub owner: Option<String>,
    /// When it was first declared or set.
    pub created_at: DateTime<Utc>,
    /// When it last became another.
    pub changed_at: DateTime<Utc>,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// When it is due next; `None` while it is paused or at fault, and for the second until that has been worked out.
    pub next_at: Option<DateTime<Utc>>,
    /// Why it cannot be worked out when it is due.
    pub fault: Option<String>,
    /// The time whose job is enqueued once the last one has ended.
    pub waiting_slot: Option<DateTime<Utc>>,
    /// The last time that was handled.
    pub last_slot: Option<DateTime<Utc>>,
    /// The last job that was enqueued, but for those enqueued by hand while an earlier one ran. It may be gone by now.
    pub last_job: Option<JobId>,
    /// What became of the last time; see [`Tick::outcome`].
    pub last_outcome: Option<String>,
}

impl ScheduleStatus {
    /// The next times, in order, as far as they are asked for; none while it is paused or at fault.
    pub fn upcoming(&self) -> impl Iterator<Item = DateTime<Utc>> {
        let cron = CronExpression::parse(&self.expression, &self.timezone).ok();
        std::iter::successors(self.next_at, move |last| cron.as_ref()?.next_after(*last))
    }
}

/// One time of a schedule that was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The time; or when somebody asked for a run.
    pub slot: DateTime<Utc>,
    /// What became of it: `fired`, `manual`, `duplicate`, `overlap`, `waiting`, `refused` or `missed`.
    pub outcome: String,
    /// The job: the one that was enqueued, that holds the unique key, or that had not ended.
    pub job: Option<JobId>,
    /// Why the job was refused.
    pub error: Option<String>,
    /// For `missed`, the first of the times that were left out; `slot` is the last.
    pub missed_since: Option<DateTime<Utc>>,
    /// When it was handled.
    pub handled_at: DateTime<Utc>,
}

/// Declares all schedules of an application, in one transaction. Answers what became of each. Those that are so already are
/// left alone, their next time included; pauses stay.
///
/// # Errors
/// [`Error::InvalidSetting`] for what cannot be, and nothing is changed; or if the database does not answer. Safe to repeat.
pub async fn declare(db: impl PgExecutor<'_>, declaration: &Declaration) -> Result<Vec<(String, Written)>, Error> {
    let schedules: Vec<_> = declaration.schedules.iter().map(job_json::schedule).collect();
    let rows = sqlx::query_file!(
        "queries/schedule/declare.sql",
        declaration.owner,
        declaration.revision,
        format!("[{}]", schedules.join(",")),
        declaration.deletes_others
    );
    let rows = rows.fetch_all(db).await.map_err(Error::of_setting)?;
    rows.into_iter().map(|row| Ok((row.name, written(&row.outcome)?))).collect()
}

/// Sets a schedule by hand: adds it, or replaces what it was.
///
/// # Errors
/// As [`declare`].
pub async fn set(db: impl PgExecutor<'_>, schedule: &PreparedSchedule) -> Result<Written, Error> {
    let row = sqlx::query_file!(
        "queries/schedule/set.sql",
        schedule.name,
        schedule.cron.expression(),
        job_json::job(&schedule.job),
        schedule.cron.timezone(),
        schedule.missed.as_str(),
        schedule.missed.catch_up_max().and_then(|max| i32::try_from(max).ok()),
        schedule.overlap.as_str()
    );
    written(&row.fetch_one(db).await.map_err(Error::of_setting)?.outcome)
}

/// Deletes a schedule; its jobs stay. Answers whether there was one. A declared one comes back when its application starts.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn delete(db: impl PgExecutor<'_>, name: &str) -> Result<bool, Error> {
    Ok(sqlx::query_file!("queries/schedule/delete.sql", name).fetch_one(db).await?.deleted)
}

/// Pauses a schedule: its times do not count until it is resumed, and are not made up then.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn pause(db: impl PgExecutor<'_>, name: &str) -> Result<Switched, Error> {
    switched(&sqlx::query_file!("queries/schedule/pause.sql", name).fetch_one(db).await?.outcome)
}

/// Resumes a schedule: its next time is the first from now on.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn resume(db: impl PgExecutor<'_>, name: &str) -> Result<Switched, Error> {
    switched(&sqlx::query_file!("queries/schedule/resume.sql", name).fetch_one(db).await?.outcome)
}

/// Enqueues the job of a schedule now, whatever its times are and whether it is paused. `None` where there is no such schedule.
///
/// # Errors
/// [`Error::InvalidSetting`] where the job cannot be enqueued, [`Error::Duplicate`] where it is not to be if its unique key is
/// held, and it is; otherwise if the database does not answer, and then it is not
/// known whether the job was enqueued.
pub async fn run(db: impl PgExecutor<'_>, name: &str) -> Result<Option<Inserted>, Error> {
    let row =
        sqlx::query_file!("queries/schedule/run.sql", name).fetch_optional(db).await.map_err(Error::of_setting)?;
    let read = |id, outcome: String| match outcome.as_str() {
        "inserted" => Ok(Inserted::New(JobId::new(id))),
        "duplicate" => Ok(Inserted::Duplicate(JobId::new(id))),
        _ => Err(Error::Unreadable { relation: "awa.run_schedule", column: "outcome", value: outcome }),
    };
    row.map(|row| read(row.job_id, row.outcome)).transpose()
}

/// All schedules by name.
///
/// # Errors
/// If the database does not answer.
pub async fn list(db: impl PgExecutor<'_>) -> Result<Vec<ScheduleStatus>, Error> {
    stored(db, None).await
}

/// One schedule; `None` where there is none of that name.
///
/// # Errors
/// If the database does not answer.
pub async fn status(db: impl PgExecutor<'_>, name: &str) -> Result<Option<ScheduleStatus>, Error> {
    Ok(stored(db, Some(name)).await?.pop())
}

/// The last times of a schedule that were handled, the newest first, at most `most`.
///
/// # Errors
/// If the database does not answer.
pub async fn ticks(db: impl PgExecutor<'_>, name: &str, most: u32) -> Result<Vec<Tick>, Error> {
    let rows = sqlx::query_file!("queries/schedule/ticks.sql", name, i64::from(most)).fetch_all(db).await?;
    let read = rows.into_iter().map(|row| Tick {
        slot: row.slot,
        outcome: row.outcome,
        job: row.job_id.map(JobId::new),
        error: row.error,
        missed_since: row.missed_since,
        handled_at: row.handled_at,
    });
    Ok(read.collect())
}

async fn stored(db: impl PgExecutor<'_>, name: Option<&str>) -> Result<Vec<ScheduleStatus>, Error> {
    let rows = sqlx::query_file_as!(Row, "queries/schedule/list.sql", name).fetch_all(db).await;
    Ok(rows.map_err(Error::of_enqueue)?.into_iter().map(ScheduleStatus::from).collect())
}

fn written(outcome: &str) -> Result<Written, Error> {
    Ok(match outcome {
        "created" => Written::Created,
        "changed" => Written::Changed,
        "unchanged" => Written::Unchanged,
        "owned" => Written::Owned,
        "outdated" => Written::Outdated,
        "deleted" => Written::Deleted,
        _ => return Err(unreadable(outcome)),
    })
}

fn switched(outcome: &str) -> Result<Switched, Error> {
    Ok(match outcome {
        "applied" => Switched::Applied,
        "unchanged" => Switched::Unchanged,
        "not_found" => Switched::NotFound,
        _ => return Err(unreadable(outcome)),
    })
}

fn unreadable(outcome: &str) -> Error {
    Error::Unreadable { relation: "awa.cron_schedules", column: "outcome", value: outcome.to_owned() }
}

/// A row of `awa.cron_schedules`.
struct Row {
    name: String,
    expression: String,
    timezone: String,
    job: String,
    missed: String,
    catch_up_max: Option<i32>,
    overlap: String,
    owner: Option<String>,
    created_at: DateTime<Utc>,
    changed_at: DateTime<Utc>,
    paused_at: Option<DateTime<Utc>>,
    next_at: Option<DateTime<Utc>>,
    fault: Option<String>,
    waiting_slot: Option<DateTime<Utc>>,
    last_slot: Option<DateTime<Utc>>,
    last_job_id: Option<i64>,
    last_outcome: Option<String>,
}

impl From<Row> for ScheduleStatus {
    fn from(row: Row) -> Self {
        Self {
            name: row.name,
            expression: row.expression,
            timezone: row.timezone,
            job: serde_json::from_str(&row.job).unwrap_or_default(),
            missed: row.missed,
            catch_up_max: row.catch_up_max,
            overlap: row.overlap,
            owner: row.owner,
            created_at: row.created_at,
            changed_at: row.changed_at,
            next_at: row.next_at.filter(|_| row.paused_at.is_none() && row.fault.is_none()),
            paused_at: row.paused_at,
            fault: row.fault,
            waiting_slot: row.waiting_slot,
            last_slot: row.last_slot,
            last_job: row.last_job_id.map(JobId::new),
            last_outcome: row.last_outcome,
        }
    }
}
