//! The values of the Awa job queue: ids, names, states, jobs, retry policies, progress.
//!
//! Nothing here does IO, reads a clock or draws randomness that decides anything: what a function needs is passed in. That
//! keeps the rules in one place where they can be tested by the thousand. With the feature `sqlx` the newtypes can be
//! bound to and read from PostgreSQL.

mod args;
mod callback;
mod cron;
mod edit;
mod error_text;
mod id;
mod insert;
mod job;
mod json;
pub mod limits;
mod name;
mod outcome;
#[cfg(feature = "sqlx")]
mod postgres;
mod priority;
mod progress;
mod retry;
mod run_lease;
mod schedule;
mod state;
mod transition;
mod unique;

pub use self::{
    args::JobArgs,
    callback::{CallbackId, InvalidCallbackId},
    cron::{CronExpression, InvalidCron},
    edit::JobEdit,
    error_text::error_text,
    id::{JobId, WorkerId},
    insert::{Due, IntoNewJob, InvalidJob, NewJob, PreparedJob},
    job::{AttemptError, ErrorSource, Job},
    json::{InvalidJson, json_text},
    name::{InvalidName, Kind, QueueName, check_owner_name, check_step_name},
    outcome::{IntoOutcome, Outcome},
    priority::{InvalidPriority, Priority},
    progress::{MetadataChange, Progress, ProgressError},
    retry::RetryPolicy,
    run_lease::RunLease,
    schedule::{InvalidSchedule, Missed, Overlap, PreparedSchedule, SLOT_LATE_MAX, Schedule, Slots},
    state::{JobState, Plane, UnknownState},
    transition::{EDGES, Edge, Transition},
    unique::{Inserted, OnConflict, Unique, UniqueArgs, UniqueStates},
};
