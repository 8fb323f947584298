//! A periodic job: what to enqueue and when. Which of its times have come, and what becomes of those that were missed, is
//! decided here, without a clock and without a database.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};

use crate::{CronExpression, Due, IntoNewJob, InvalidCron, InvalidJob, InvalidName, PreparedJob, name};

/// A time that has passed by more than this is missed: the process that should have enqueued its job was not there.
pub const SLOT_LATE_MAX: TimeDelta = TimeDelta::seconds(60);

/// Times that are made up in one go; the rest follows at once, and other schedules come in between.
const SLOTS_AT_ONCE: usize = 100;

/// Times that [`Missed::CatchUp`] may make up.
const CATCH_UP_MAX: std::ops::RangeInclusive<u32> = 1..=10_000;

/// A job that is enqueued again and again, at the times of a cron expression.
///
/// Nothing is checked before [`prepare`](Self::prepare), which declaring it calls, so that a chain of methods stays a chain.
#[must_use = "a schedule does nothing until it is declared or set"]
pub struct Schedule {
    name: String,
    expression: String,
    timezone: String,
    job: Result<PreparedJob, InvalidJob>,
    missed: Missed,
    overlap: Overlap,
}

/// What becomes of times that have passed while nobody could enqueue their jobs: after an outage, or a gap between two
/// deployments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missed {
    /// However many have passed, one job is enqueued, for the last of them.
    #[default]
    Coalesce,
    /// A time that has passed by more than a minute is left out.
    Skip,
    /// Each is made up, the oldest first: those of the last `max`. Older ones are left out.
    CatchUp {
        /// How many: 1 to 10,000.
        max: u32,
    },
}

/// What happens at a time at which the job of an earlier one has not ended. A job that waits for another attempt has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overlap {
    /// Another job is enqueued beside it.
    #[default]
    Allow,
    /// The time is left out.
    Skip,
    /// A job is enqueued once the earlier one has ended. If more times pass until then, it is the last of them.
    Queue,
}

impl Missed {
    /// Its name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Coalesce => "coalesce",
            Self::Skip => "skip",
            Self::CatchUp { .. } => "catch_up",
        }
    }

    /// How many times are made up, where that is limited.
    #[must_use]
    pub const fn catch_up_max(self) -> Option<u32> {
        match self {
            Self::CatchUp { max } => Some(max),
            Self::Coalesce | Self::Skip => None,
        }
    }
}

impl Overlap {
    /// Its name in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
            Self::Queue => "queue",
        }
    }
}

/// Why a schedule cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSchedule {
    /// Its name.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Its expression or time zone.
    #[error(transparent)]
    Cron(#[from] InvalidCron),
    /// Its job.
    #[error("job.{reason}")]
    Job {
        /// Field, value and limit, in the words of [`InvalidJob`].
        reason: String,
    },
    /// Its job has a due time of its own; the schedule says when.
    #[error("job.{field} is given; a schedule says when its job is due")]
    JobIsDue {
        /// `run_at` or `run_in`.
        field: &'static str,
    },
    /// Too many times to make up, or none.
    #[error("catch_up max is {max}; it must be {} to {}", CATCH_UP_MAX.start(), CATCH_UP_MAX.end())]
    CatchUp {
        /// What was given.
        max: u32,
    },
}

impl Schedule {
    /// A job that is enqueued at the times of this expression, in UTC. The name tells it from all others of the database.
    pub fn new<J: IntoNewJob>(name: impl Into<String>, expression: impl Into<String>, job: J) -> Self {
        Self {
            name: name.into(),
            expression: expression.into(),
            timezone: "UTC".to_owned(),
            job: job.into_new_job().prepare(),
            missed: Missed::default(),
            overlap: Overlap::default(),
        }
    }

    /// Reads the expression as times on the clocks of this zone, a name of the IANA database: `Europe/Berlin`.
    pub fn timezone(self, timezone: impl Into<String>) -> Self {
        Self { timezone: timezone.into(), ..self }
    }

    /// Says what becomes of times that were missed; one job for all of them unless this says otherwise.
    pub fn missed(self, missed: Missed) -> Self {
        Self { missed, ..self }
    }

    /// Says what happens while an earlier job has not ended; another one is enqueued unless this says otherwise.
    pub fn overlap(self, overlap: Overlap) -> Self {
        Self { overlap, ..self }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks every limit and gives what storage needs.
    ///
    /// # Errors
    /// The first thing that is wrong. Nothing has been sent by then.
    pub fn prepare(self) -> Result<PreparedSchedule, InvalidSchedule> {
        name::check("schedule", &self.name)?;
        let cron = CronExpression::parse(&self.expression, &self.timezone)?;
        let job = self.job.map_err(|error| InvalidSchedule::Job { reason: error.to_string() })?;
        match job.due {
            Due::Now => {}
            Due::At(_) => return Err(InvalidSchedule::JobIsDue { field: "run_at" }),
            Due::In(_) => return Err(InvalidSchedule::JobIsDue { field: "run_in" }),
        }
        if let Missed::CatchUp { max } = self.missed
            && !CATCH_UP_MAX.contains(&max)
        {
            return Err(InvalidSchedule::CatchUp { max });
        }
        Ok(PreparedSchedule { name: self.name, cron, job, missed: self.missed, overlap: self.overlap })
    }
}

impl fmt::Debug for Schedule {
    // Without the args of its job: they may hold what must not be logged.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Schedule")
            .field("name", &self.name)
            .field("expression", &self.expression)
            .field("timezone", &self.timezone)
            .field("missed", &self.missed)
            .field("overlap", &self.overlap)
            .finish_non_exhaustive()
    }
}

/// A schedule that kept every limit, as storage takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedSchedule {
    /// What tells it from all others.
    pub name: String,
    /// When.
    pub cron: CronExpression,
    /// What to enqueue, without a due time.
    pub job: PreparedJob,
    /// What becomes of times that were missed.
    pub missed: Missed,
    /// What happens while an earlier job has not ended.
    pub overlap: Overlap,
}

/// What is to be done about a schedule now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// The times whose jobs are to be enqueued, in order.
    pub due: Vec<DateTime<Utc>>,
    /// The first and the last of those times that are left out.
    pub left_out: Option<(DateTime<Utc>, DateTime<Utc>)>,
    /// The first time that is neither: in the future, or to be made up next.
    pub next: Option<DateTime<Utc>>,
}

impl Slots {
    /// Decides about every time from `from` on, the first of which nothing has become yet, until `now`.
    #[must_use]
    pub fn of(cron: &CronExpression, missed: Missed, from: DateTime<Utc>, now: DateTime<Utc>) -> Self {
        if from > now {
            return Self { next: Some(from), ..Self::default() };
        }
        let newest = cron.latest(now).map_or(from, |latest| latest.max(from));
        let next = cron.next_after(newest);
        match missed {
            Missed::Coalesce => {
                let left_out = (from < newest).then(|| (from, cron.before(newest).unwrap_or(from).max(from)));
                Self { due: vec![newest], left_out, next }
            }
            Missed::Skip if now - newest > SLOT_LATE_MAX => {
                Self { due: Vec::new(), left_out: Some((from, newest)), next }
            }
            Missed::Skip => Self::of(cron, Missed::Coalesce, from, now),
            Missed::CatchUp { max } => Self::made_up(cron, max, from, newest),
        }
    }

    /// The last `max` times, as far as they are done in one go.
    fn made_up(cron: &CronExpression, max: u32, from: DateTime<Utc>, newest: DateTime<Utc>) -> Self {
        let earlier = |time: &DateTime<Utc>| cron.before(*time).filter(|time| *time >= from);
        let mut due: Vec<_> = std::iter::successors(Some(newest), earlier).take(max as usize).collect();
        due.reverse();
        let first = due.first().copied().unwrap_or(newest);
        let left_out = (from < first).then(|| (from, earlier(&first).unwrap_or(from)));
        let rest = due.get(SLOTS_AT_ONCE).copied();
        due.truncate(SLOTS_AT_ONCE);
        Self { due, left_out, next: rest.or_else(|| cron.next_after(newest)) }
    }
}

#[cfg(test)]
mod tests;
