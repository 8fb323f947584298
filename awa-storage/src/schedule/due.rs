//! What the leader does about schedules whose time has come.

use std::time::Duration;

use awa_model::{CronExpression, InvalidCron, JobId, Missed, Slots};
use chrono::{DateTime, Utc};
use sqlx::PgExecutor;

use crate::Error;

/// A schedule that asks for something now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSchedule {
    /// Its name.
    pub name: String,
    /// Its cron expression, which nobody may have read yet.
    pub expression: String,
    /// The name of a zone, likewise.
    pub timezone: String,
    /// What becomes of times that were missed.
    pub missed: Missed,
    /// The first time that was not handled yet; `None` while it has to be worked out.
    pub next_at: Option<DateTime<Utc>>,
    /// Whether a job waits for an earlier one, which has ended.
    pub is_waiting: bool,
    /// The time by the database's clock.
    pub now: DateTime<Utc>,
    revision: i64,
}

impl DueSchedule {
    /// Reads its expression and zone.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn cron(&self) -> Result<CronExpression, InvalidCron> {
        CronExpression::parse(&self.expression, &self.timezone)
    }
}

/// What became of one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Its job was enqueued.
    Fired,
    /// Another job holds the unique key of its job.
    Duplicate,
    /// An earlier job had not ended.
    Overlap,
    /// Its job is enqueued once an earlier one has ended.
    Waiting,
    /// Its job cannot be enqueued.
    Refused,
}

/// One time that was handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fired {
    /// The time.
    pub slot: DateTime<Utc>,
    /// What became of it.
    pub outcome: Outcome,
    /// The job: the one that was enqueued, that holds the unique key, or that had not ended.
    pub job: Option<JobId>,
    /// Why it was refused.
    pub error: Option<String>,
}

/// The schedules that ask for something now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Due {
    /// Those, the most urgent first.
    pub schedules: Vec<DueSchedule>,
    /// In how long the next time of any comes, zero if it has come; `None` where none is known.
    pub next_in: Option<Duration>,
}

/// Up to `most` schedules that ask for something now.
///
/// # Errors
/// If the database does not answer.
pub async fn due(db: impl PgExecutor<'_>, most: u32) -> Result<Due, Error> {
    let rows = sqlx::query_file_as!(Asking, "queries/schedule/due.sql", i32::try_from(most).unwrap_or(i32::MAX));
    let rows = rows.fetch_all(db).await?;
    let next_in = rows.first().and_then(|row| row.next_in);
    Ok(Due {
        next_in: next_in.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)),
        schedules: rows.into_iter().filter_map(Asking::read).collect::<Result<_, _>>()?,
    })
}

/// A row of what is due; nulls where nothing is.
struct Asking {
    next_in: Option<f64>,
    name: Option<String>,
    expression: Option<String>,
    timezone: Option<String>,
    missed: Option<String>,
    catch_up_max: Option<i32>,
    revision: Option<i64>,
    planned: Option<bool>,
    next_at: Option<DateTime<Utc>>,
    is_waiting: Option<bool>,
    now: Option<DateTime<Utc>>,
}

impl Asking {
    fn read(self) -> Option<Result<DueSchedule, Error>> {
        let missed = self.missed?;
        let max = self.catch_up_max.and_then(|max| u32::try_from(max).ok());
        let missed = match (missed.as_str(), max) {
            ("coalesce", _) => Missed::Coalesce,
            ("skip", _) => Missed::Skip,
            ("catch_up", Some(max)) => Missed::CatchUp { max },
            _ => {
                let (relation, column) = ("awa.cron_schedules", "missed");
                return Some(Err(Error::Unreadable { relation, column, value: missed }));
            }
        };
        Some(Ok(DueSchedule {
            name: self.name?,
            expression: self.expression?,
            timezone: self.timezone?,
            missed,
            next_at: self.next_at.filter(|_| self.planned == Some(true)),
            is_waiting: self.is_waiting?,
            now: self.now?,
            revision: self.revision?,
        }))
    }
}

/// Notes when a schedule is due next, or why that cannot be worked out. False where it is another by now.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn plan(
    db: impl PgExecutor<'_>,
    schedule: &DueSchedule,
    next: Result<Option<DateTime<Utc>>, &str>,
) -> Result<bool, Error> {
    let (next, fault) = (next.ok().flatten(), next.err());
    let row = sqlx::query_file!("queries/schedule/plan.sql", schedule.name, schedule.revision, next, fault);
    Ok(row.fetch_one(db).await?.planned)
}

/// Handles times of a schedule: enqueues their jobs and notes them, in one transaction. Nothing is answered where the schedule is
/// another by now, or somebody else has handled them.
///
/// # Errors
/// If the database does not answer, or something was locked; then all was done, or nothing. Safe to repeat.
pub async fn fire(db: impl PgExecutor<'_>, schedule: &DueSchedule, slots: &Slots) -> Result<Vec<Fired>, Error> {
    let rows = sqlx::query_file_as!(
        Row,
        "queries/schedule/fire.sql",
        schedule.name,
        schedule.revision,
        schedule.next_at,
        &slots.due,
        slots.left_out.map(|(first, _)| first),
        slots.left_out.map(|(_, last)| last),
        slots.next
    );
    rows.fetch_all(db).await.map_err(Error::of_enqueue)?.into_iter().map(Row::read).collect()
}

/// Enqueues the job of a schedule that waits for an earlier one, if that has ended.
///
/// # Errors
/// As [`fire`].
pub async fn fire_waiting(db: impl PgExecutor<'_>, schedule: &DueSchedule) -> Result<Option<Fired>, Error> {
    let row = sqlx::query_file_as!(Row, "queries/schedule/fire_waiting.sql", schedule.name).fetch_optional(db);
    row.await.map_err(Error::of_enqueue)?.map(Row::read).transpose()
}

/// Forgets up to `batch` times that were handled more than 90 days ago. Answers how many.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn prune_ticks(db: impl PgExecutor<'_>, batch: u32) -> Result<usize, Error> {
    let row = sqlx::query_file!("queries/schedule/prune.sql", i32::try_from(batch).unwrap_or(i32::MAX));
    Ok(usize::try_from(row.fetch_one(db).await?.pruned).unwrap_or(0))
}

struct Row {
    slot: DateTime<Utc>,
    outcome: String,
    job_id: Option<i64>,
    error: Option<String>,
}

impl Row {
    fn read(self) -> Result<Fired, Error> {
        let outcome = match self.outcome.as_str() {
            "fired" => Outcome::Fired,
            "duplicate" => Outcome::Duplicate,
            "overlap" => Outcome::Overlap,
            "waiting" => Outcome::Waiting,
            "refused" => Outcome::Refused,
            _ => {
                return Err(Error::Unreadable { relation: "awa.cron_ticks", column: "outcome", value: self.outcome });
            }
        };
        Ok(Fired { slot: self.slot, outcome, job: self.job_id.map(JobId::new), error: self.error })
    }
}
