#![forbid(unsafe_code)]
//! Background jobs for Rust services on PostgreSQL: enqueue in your transaction, run at least once.
//!
//! A service depends on this crate alone. It describes its jobs as types with `#[derive(JobArgs)]`, enqueues them with
//! [`enqueue`] in its own transactions, and runs them with a [`Client`] that has a handler for each kind.
//!
//! # Guarantees
//! - A job enqueued in a transaction exists if and only if that transaction commits.
//! - A committed job runs at least once and ends in a terminal state, whatever dies on the way. It can run twice: a
//!   process that is cut off from the database keeps running what it held. Each run has a lease, and whatever a lost lease
//!   still writes about its job is refused.
//! - A process never holds more jobs of a queue than the queue's `max_workers`: capacity is freed only when the outcome
//!   is durable.
//!
//! # Map
//! [`Client`] and its builder put everything together. Inside, a running worker is a dispatcher that claims, an executor
//! for each attempt, a finalizer that writes outcomes in batches, a looker that finds rows which claims have passed, and a
//! heartbeat thread. They share one `Engine` and know each other by what they hand on: claimed jobs, outcomes.

mod attempts;
mod blocked;
mod bounded;
mod callback;
#[doc(hidden)]
pub mod checked_handler;
mod client;
mod config;
mod context;
mod dispatcher;
mod doze;
mod engine;
mod enqueue;
mod error;
mod executor;
mod failure;
mod finalizer;
mod flow;
mod handler;
mod heartbeat;
mod idle;
mod jitter;
mod kind_limit;
mod leftovers;
mod looker;
mod maintenance;
mod middleware;
mod operate;
mod panics;
mod progress_buffer;
mod registry;
mod runtime;
mod schedules;
mod schema;
mod shutdown;
mod side;
mod signal;
mod slots;
mod steps_taken;
mod store;
mod taken;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "tower")]
mod tower;
mod verdict;
mod watch;
mod watched;

pub use async_trait::async_trait;
pub use awa_macros::{JobArgs, debug_handler};
pub use awa_maintenance::{DutyName, Ticked};
pub use awa_model::{
    CallbackId, Due, Inserted, IntoNewJob, IntoOutcome, InvalidCron, InvalidJob, InvalidName, InvalidSchedule, JobArgs,
    JobEdit, JobId, JobState, Kind, Missed, NewJob, OnConflict, Outcome, Overlap, Priority, Progress, ProgressError,
    QueueName, RetryPolicy, RunLease, Schedule, Unique, UniqueArgs, UniqueStates, WorkerId, limits,
};
pub use awa_storage::Error as StorageError;
pub use awa_storage::admin::{JobStatus, Operated, fleet, why};
pub use awa_storage::callback::Answered;
pub use awa_storage::schedule::{ScheduleStatus, Switched, Tick, Written as ScheduleWritten};
pub use chrono;
pub use sqlx;
pub use tokio_util::sync::CancellationToken;

pub use crate::attempts::CancelReason;
pub use crate::callback::{Callback, NO_PAYLOAD, callback_complete, callback_fail, callback_resume};
pub use crate::client::{Client, ClientBuilder};
pub use crate::config::{BuildError, Mistake, QueueConfig};
pub use crate::context::{CheckpointError, JobContext, MetadataError, ProgressHandle, StepError};
pub use crate::enqueue::{enqueue, enqueue_copy, enqueue_many};
pub use crate::error::{JobError, ResultExt};
pub use crate::failure::Error;
pub use crate::handler::{
    Data, FromContext, Handler, HandlerExt, Registration, Requirement, ViaRegistration, ViaWorker, Worker,
};
pub use crate::leftovers::{ShutdownReport, Unfinished, UnfinishedEnd};
pub use crate::middleware::{Enqueued, Executed, JobDraft, JobOutput, Middleware, Next, NextEnqueue};
pub use crate::runtime::Running;
pub use crate::schedules::{ScheduleOwner, ScheduledBy};
pub use crate::schema::migrate;
pub use crate::shutdown::Shutdown;
pub use crate::signal::shutdown_signal;
#[cfg(feature = "tower")]
pub use crate::tower::{JobFailure, JobRequest, RunJob, TowerMiddleware};
pub use crate::watch::{WaitError, Watch};

/// How long ended jobs are kept, and how the ring of segments that holds them is doing. The settings are in the database and
/// reach every process within seconds.
///
/// ```no_run
/// use std::time::Duration;
///
/// use awa_worker::ring::{self, QueueRetention, RingSettings};
///
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
///
/// # async fn run(pool: sqlx::PgPool) -> Result<(), awa_worker::StorageError> {
/// ring::configure(&pool, &RingSettings { failed_retention: Some(30 * DAY), ..RingSettings::default() }).await?;
/// ring::set_retention(&pool, "reports", QueueRetention { completed: Some(90 * DAY), ..QueueRetention::default() }).await?;
/// # Ok(()) }
/// ```
pub mod ring {
    pub use awa_storage::ring::{
        QueueRetention, RingSettings, RingStatus, configure, reset_retention, set_retention, status,
    };
}

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The pages for those who write jobs: their examples compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/handlers.md")]
#[doc = include_str!("../../docs/callbacks.md")]
#[doc = include_str!("../../docs/schedules.md")]
struct Pages;

/// The page for those who test jobs.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../docs/testing-jobs.md")]
struct TestingPage;

/// What the code that the macros write refers to. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use awa_model;

    pub use crate::checked_handler as handler;
}
