//! How the fleet is doing, for dashboards and people: one statement, and values.

use std::time::Duration;

use awa_model::WorkerId;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use sqlx::PgExecutor;

pub use self::duties::{Backlog, DutyStatus, Walk};
pub use self::warnings::{Size, Warning, WarningCode};
pub use crate::ring::{RingSettings, RingStatus};
use crate::{Error, ring::from_now};

mod duties;
mod warnings;

/// How the fleet is doing. Times are the database's. Lists have at most 1000 entries, counts go up to a limit; what ends in
/// `is_all` says whether that is everything.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Status {
    /// When this was.
    pub at: DateTime<Utc>,
    /// Who promotes, rescues and times out; `None` where nobody does.
    pub leader: Option<Leader>,
    /// When the last term ended or will end; `None` where there never was one.
    pub last_led_at: Option<DateTime<Utc>>,
    /// The duties of maintenance: the eight in their order, then those that only a newer release knows.
    pub duties: Vec<DutyStatus>,
    /// Processes on the list of workers, the oldest first: the live ones, and those that died a short time ago.
    pub workers: Vec<WorkerStatus>,
    /// Whether that is all of them.
    pub workers_is_all: bool,
    /// The ring of segments.
    #[serde(deserialize_with = "ring")]
    pub ring: RingStatus,
    /// The queues that have settings, workers or jobs in the hot plane, by name.
    pub queues: Vec<QueueStatus>,
    /// Whether that is all of them.
    pub queues_is_all: bool,
    /// What is open and holds something up.
    pub holders: Vec<Holder>,
    /// Schedules at fault or paused, by name.
    pub schedules: Vec<StoppedSchedule>,
    /// Waiting that should be over.
    pub callbacks: Callbacks,
    /// What ended jobs take and will take.
    pub size: Size,
    /// What somebody should look at now, the gravest first; nothing where all is well.
    pub warnings: Vec<Warning>,
}

/// Who leads.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Leader {
    /// The process.
    pub worker: WorkerId,
    /// Its name; `None` where it is on no list of workers.
    pub name: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// The number of its term.
    pub term: i64,
    /// When it was elected.
    pub since: DateTime<Utc>,
    /// When its term ends if it is not renewed.
    pub until: DateTime<Utc>,
}

/// A process on the list of workers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct WorkerStatus {
    /// Its id.
    pub id: WorkerId,
    /// A name for people.
    pub name: String,
    /// Its host.
    pub host: String,
    /// Its process id there.
    pub pid: i32,
    /// Its version of Awa.
    pub version: String,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// The kinds it has handlers for.
    pub kinds: Vec<String>,
    /// When it started.
    pub started_at: DateTime<Utc>,
    /// Its last sign of life.
    pub last_seen_at: DateTime<Utc>,
    /// Whether that was recent enough.
    pub is_alive: bool,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct QueueStatus {
    /// Its name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Live workers that serve it.
    pub workers: u64,
    /// Jobs that are available.
    pub available: u64,
    /// Whether that is all of them.
    pub available_is_all: bool,
    /// Since when the oldest of these has been waiting.
    pub waiting_since: Option<DateTime<Utc>>,
    /// Jobs that run.
    pub running: u64,
    /// Whether that is all of them.
    pub running_is_all: bool,
    /// Jobs that are scheduled or to be retried.
    pub deferred: u64,
    /// Those of them that are due and have not been promoted.
    pub overdue: u64,
    /// Whether these two, and the next, cover all of them.
    pub deferred_is_all: bool,
    /// When the first of them is or was due.
    pub next_due_at: Option<DateTime<Utc>>,
}

/// Something that is open: a transaction that began more than a minute ago, a prepared one, a replication slot, or a replica.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Holder {
    /// What it is.
    pub what: HolderKind,
    /// The name of a prepared transaction or a slot.
    pub name: Option<String>,
    /// The process of a session or of who reads a slot.
    pub pid: Option<i32>,
    /// The role.
    pub user: Option<String>,
    /// What a session says it is, or the type of a slot.
    pub application: Option<String>,
    /// What a session does (`idle in transaction`, …), or whether a slot is active; `None` where it may not be seen.
    pub state: Option<String>,
    /// When the transaction began or was prepared; `None` where it may not be seen, and for slots.
    pub since: Option<DateTime<Utc>>,
    /// When the session's last statement began.
    pub query_started_at: Option<DateTime<Utc>>,
    /// How many transactions have begun after what it may still see.
    pub xids: Option<i64>,
    /// What it holds up.
    pub holds: Vec<Holds>,
}

/// What is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HolderKind {
    /// A transaction of a session.
    Session,
    /// A prepared transaction.
    Prepared,
    /// A replication slot.
    Slot,
    /// A replica without a slot that tells what its queries still read.
    Replica,
    /// Something that a newer schema knows.
    #[serde(other)]
    Other,
}

/// What is held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Holds {
    /// Jobs that it has enqueued, changed or locked.
    Jobs,
    /// The emptying of segments.
    Ring,
    /// The cleaning up of rows, in all tables of the database.
    Rows,
    /// The same of system tables alone.
    Catalogs,
    /// Something that a newer schema knows.
    #[serde(other)]
    Other,
}

/// A schedule that enqueues nothing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct StoppedSchedule {
    /// Its name.
    pub name: String,
    /// Why no time can be worked out.
    pub fault: Option<String>,
    /// Since when it is paused.
    pub paused_at: Option<DateTime<Utc>>,
    /// The first time that was not handled yet.
    pub next_at: Option<DateTime<Utc>>,
}

/// Jobs that wait for the answer to a callback, and should not any more.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Callbacks {
    /// How many.
    pub overdue: u64,
    /// Whether that is all of them.
    pub overdue_is_all: bool,
    /// When the first of them should have ended.
    pub overdue_since: Option<DateTime<Utc>>,
}

/// How is the fleet doing? Reads a bounded number of rows, whatever waits.
///
/// `stale_after` is the silence after which a worker is taken for dead: give what the workers have.
///
/// # Errors
/// If the database does not answer.
pub async fn status(db: impl PgExecutor<'_>, stale_after: Duration) -> Result<Status, Error> {
    let silence = stale_after.min(super::SILENCE_MAX).as_secs_f64();
    let row = sqlx::query_file!("queries/admin/fleet.sql", silence).fetch_one(db).await.map_err(Error::of_enqueue)?;
    serde_json::from_str(&row.status).map_err(|_| Error::Unreadable {
        relation: "awa.status",
        column: "status",
        value: row.status,
    })
}

/// The ring as JSON has it: spans are seconds.
#[derive(Deserialize)]
struct RingJson {
    oldest: i64,
    current: i64,
    bytes: Vec<u64>,
    ages: Vec<f64>,
    parked_bytes: u64,
    claims_bytes: u64,
    rotate_in: Option<f64>,
    recycle_in: Option<f64>,
    reason: Option<String>,
    stuck_for: Option<f64>,
    settings: SettingsJson,
}

#[derive(Deserialize)]
struct SettingsJson {
    completed_retention: Option<f64>,
    failed_retention: Option<f64>,
    cancelled_retention: Option<f64>,
    segment_bytes_max: Option<u64>,
    segment_age_max: Option<f64>,
    snapshot_patience: Option<f64>,
    expected_bytes_max: Option<u64>,
}

fn ring<'de, D: serde::Deserializer<'de>>(source: D) -> Result<RingStatus, D::Error> {
    let ring = RingJson::deserialize(source)?;
    let settings = ring.settings;
    Ok(RingStatus {
        oldest: ring.oldest,
        current: ring.current,
        bytes: ring.bytes,
        ages: ring.ages.into_iter().map(from_now).collect(),
        parked_bytes: ring.parked_bytes,
        claims_bytes: ring.claims_bytes,
        rotate_in: ring.rotate_in.map(from_now),
        recycle_in: ring.recycle_in.map(from_now),
        reason: ring.reason,
        stuck_for: ring.stuck_for.map(from_now),
        settings: RingSettings {
            completed_retention: settings.completed_retention.map(from_now),
            failed_retention: settings.failed_retention.map(from_now),
            cancelled_retention: settings.cancelled_retention.map(from_now),
            segment_bytes_max: settings.segment_bytes_max,
            segment_age_max: settings.segment_age_max.map(from_now),
            snapshot_patience: settings.snapshot_patience.map(from_now),
            expected_bytes_max: settings.expected_bytes_max,
        },
    })
}

/// A span as JSON has it: seconds.
fn span<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<f64>::deserialize(source)?.map(from_now))
}
