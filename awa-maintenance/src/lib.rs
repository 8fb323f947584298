//! What keeps an Awa fleet healthy: promotion, periodic jobs, rescue, timeouts of callbacks, the ring of segments, retention and
//! the audit, done by one process at a time. Knows no handlers.
//!
//! Map: [`serve`] gives it connections, [`tick`] does it once. [`Maintainer`] is the only loop. It runs each [`Duty`] in a task of its own while its [`Elector`] leads, so a slow
//! duty delays no other. A duty knows one pass: bounded, safe to repeat, safe beside another process that does the same.
//! [`MaintenanceConfig`] holds every interval and limit. The statements are in `awa-storage`.
//!
//! *Invariant I10:* two leaders at once do no harm. Leadership only saves work.
//! *Invariant I6:* a pass that meets a bad row still handles all others.

mod auditor;
mod callback_keeper;
mod claims_keeper;
mod config;
mod contact;
mod duties;
mod duty;
mod error;
mod journal;
mod leadership;
mod maintainer;
mod outlook;
mod promoter;
mod pruner;
mod rescuer;
mod ring_keeper;
mod scheduler;
mod service;

pub use self::{
    auditor::Auditor,
    callback_keeper::CallbackKeeper,
    claims_keeper::ClaimsKeeper,
    config::{InvalidConfig, MaintenanceConfig},
    duties::{Duties, DutyName, UnknownDuty},
    duty::{Duty, Next, Pass, Walk},
    error::Error,
    leadership::{DUTY, Elector, Trust},
    maintainer::Maintainer,
    promoter::Promoter,
    pruner::Pruner,
    rescuer::Rescuer,
    ring_keeper::RingKeeper,
    scheduler::Scheduler,
    service::{CONNECTIONS, Ticked, serve, tick},
};
