//! Periodic jobs: declared in code, or set and steered while the service runs.
//!
//! A client declares its schedules when it starts to run jobs. The process that leads the fleet enqueues their jobs, whichever
//! application declared them; so a schedule goes on while its own application is down, and its jobs wait for it.

use awa_model::{Inserted, InvalidSchedule, PreparedSchedule, Schedule, check_owner_name};
use awa_storage::schedule::{self, Declaration, ScheduleStatus, Switched, Tick, Written};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use sqlx::PgPool;

use crate::client::{Client, ClientBuilder};
use crate::config::Mistake;
use crate::context::JobContext;
use crate::failure::Error;

/// Who declares schedules, unless a client says.
const OWNER_DEFAULT: &str = "default";

/// The key in the metadata of a periodic job.
const SCHEDULE_KEY: &str = "$schedule";

/// Whose schedules a client declares. Applications that share a database should name themselves: what one declares, another
/// cannot change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "it says nothing before it is given to a builder"]
pub struct ScheduleOwner {
    name: String,
    revision: u32,
    deletes_others: bool,
}

impl ScheduleOwner {
    /// An application of this name, at revision 0, that deletes nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), revision: 0, deletes_others: false }
    }

    /// The revision of its schedules in the code: a number to be raised whenever they change. While two versions of an
    /// application run side by side in a deployment, processes of the older one that start again change nothing. Without it,
    /// the last process to start counts.
    pub fn revision(self, revision: u32) -> Self {
        Self { revision, ..self }
    }

    /// Deletes schedules of this application that are not declared any more. Otherwise they stay, and go on, until somebody
    /// deletes them.
    pub fn delete_undeclared(self) -> Self {
        Self { deletes_others: true, ..self }
    }
}

impl Default for ScheduleOwner {
    fn default() -> Self {
        Self::new(OWNER_DEFAULT)
    }
}

/// What a client is to declare, while it is being put together.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    owner: ScheduleOwner,
    schedules: Vec<PreparedSchedule>,
    mistakes: Vec<Mistake>,
}

impl Declared {
    fn add(&mut self, schedule: Schedule) {
        let name = schedule.name().to_owned();
        if self.schedules.iter().any(|other| other.name == name) {
            self.mistakes.push(Mistake::ScheduleTwice { schedule: name.clone() });
        }
        match schedule.prepare() {
            Ok(prepared) => self.schedules.push(prepared),
            Err(reason) => self.mistakes.push(Mistake::InvalidSchedule { schedule: name, reason }),
        }
    }

    /// What is to be sent, or everything that is wrong with it.
    pub(crate) fn check(self) -> Result<Option<Declaration>, Vec<Mistake>> {
        let mut mistakes = self.mistakes;
        if let Err(reason) = check_owner_name(&self.owner.name) {
            mistakes.push(Mistake::InvalidOwner { owner: self.owner.name.clone(), reason });
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        let declaration = Declaration {
            owner: self.owner.name,
            revision: self.owner.revision.into(),
            schedules: self.schedules,
            deletes_others: self.owner.deletes_others,
        };
        Ok(Some(declaration).filter(|all| !all.schedules.is_empty() || all.deletes_others))
    }
}

/// Periodic jobs.
impl ClientBuilder {
    /// Declares a periodic job: [`Client::start`] writes it into the database, unless it is there already. May be given several
    /// times, each with another name. A change takes effect within a second; what the schedule has missed until then stays
    /// missed only if its expression or time zone is another.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.declared.add(schedule);
        self
    }

    /// Says whose schedules these are; `default` unless given.
    pub fn schedule_owner(mut self, owner: ScheduleOwner) -> Self {
        self.declared.owner = owner;
        self
    }
}

/// Declares what a client has, and says what came of it.
pub(crate) async fn declare(pool: &PgPool, declaration: &Declaration) -> Result<Vec<(String, Written)>, Error> {
    let written = schedule::declare(pool, declaration).await?;
    let owner = &declaration.owner;
    for (name, what) in &written {
        match what {
            Written::Owned => {
                tracing::error!(
                    schedule = name,
                    owner,
                    "somebody else has a schedule of this name: it is not declared"
                );
            }
            Written::Outdated => {
                tracing::info!(
                    schedule = name,
                    owner,
                    "a newer revision has declared its schedules: this one is ignored"
                );
            }
            Written::Unchanged => {}
            _ => tracing::info!(schedule = name, owner, what = ?what, "declared a schedule"),
        }
    }
    Ok(written)
}

/// Periodic jobs, through the client's pool. The database role needs the bundle `operator`, to look at them `viewer`, and to
/// declare them `worker`.
impl Client {
    /// Declares the schedules that the client was built with, as [`Client::start`] does: for services that run no jobs.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn declare_schedules(&self) -> Result<Vec<(String, Written)>, Error> {
        match self.declaration() {
            Some(declaration) => declare(self.pool(), declaration).await,
            None => Ok(Vec::new()),
        }
    }

    /// Sets a schedule while the service runs: adds it, or replaces what it was. It stays until it is deleted. Takes effect
    /// within a second. [`Written::Owned`] where an application declares a schedule of that name.
    ///
    /// # Errors
    /// [`Error::InvalidSchedule`] for what cannot be; otherwise if the database does not answer. Safe to repeat.
    pub async fn set_schedule(&self, schedule: Schedule) -> Result<Written, Error> {
        Ok(schedule::set(self.pool(), &schedule.prepare()?).await?)
    }

    /// Deletes a schedule, and says whether there was one. Its jobs stay. One that is declared comes back when its application
    /// starts; pausing keeps it from running.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn delete_schedule(&self, name: &str) -> Result<bool, Error> {
        Ok(schedule::delete(self.pool(), name).await?)
    }

    /// Pauses a schedule: its times do not count until it is resumed, and are not made up then. Declaring it again does not end
    /// the pause.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn pause_schedule(&self, name: &str) -> Result<Switched, Error> {
        Ok(schedule::pause(self.pool(), name).await?)
    }

    /// Resumes a schedule: its next time is the first from now on.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn resume_schedule(&self, name: &str) -> Result<Switched, Error> {
        Ok(schedule::resume(self.pool(), name).await?)
    }

    /// Enqueues the job of a schedule now, whatever its times are, whether it is paused, and whatever an earlier job does.
    /// `None` where there is no such schedule.
    ///
    /// # Errors
    /// [`Error::Storage`] where the job cannot be enqueued, or the database does not answer; then it is not known whether it was
    /// enqueued.
    pub async fn run_schedule(&self, name: &str) -> Result<Option<Inserted>, Error> {
        Ok(schedule::run(self.pool(), name).await?)
    }

    /// All schedules, by name.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer.
    pub async fn schedules(&self) -> Result<Vec<ScheduleStatus>, Error> {
        Ok(schedule::list(self.pool()).await?)
    }

    /// One schedule; `None` where there is none of that name. [`ScheduleStatus::upcoming`] lists its next times.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer.
    pub async fn schedule_status(&self, name: &str) -> Result<Option<ScheduleStatus>, Error> {
        Ok(schedule::status(self.pool(), name).await?)
    }

    /// The last times of a schedule that were handled, the newest first: what came of each, and its job. Kept for 90 days.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer.
    pub async fn schedule_ticks(&self, name: &str, most: u32) -> Result<Vec<Tick>, Error> {
        Ok(schedule::ticks(self.pool(), name, most).await?)
    }
}

/// The schedule that a job comes from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ScheduledBy {
    /// The name of the schedule.
    pub name: String,
    /// The time for which the job was enqueued: that of its schedule, whenever the job runs.
    pub slot: DateTime<Utc>,
}

/// Periodic jobs.
impl JobContext {
    /// The schedule that has enqueued this job, and the time for which; `None` for a job that was enqueued otherwise.
    #[must_use]
    pub fn scheduled_by(&self) -> Option<ScheduledBy> {
        let by = self.metadata()?.get(SCHEDULE_KEY)?;
        ScheduledBy::deserialize(by).ok()
    }
}

impl From<InvalidSchedule> for Error {
    fn from(invalid: InvalidSchedule) -> Self {
        Self::InvalidSchedule(invalid)
    }
}
