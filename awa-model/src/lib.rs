//! The values of the Awa job queue: ids, names, states, jobs, retry policies, progress.
//!
//! Nothing here does IO, reads a clock or draws randomness that decides anything: what a function needs is passed in. That
//! keeps the rules in one place where they can be tested by the thousand. With the feature `sqlx` the newtypes can be
//! bound to and read from PostgreSQL.

mod id;
pub mod limits;
mod name;
#[cfg(feature = "sqlx")]
mod postgres;
mod priority;
mod run_lease;
mod state;
pub mod transition;

pub use self::{
    id::{JobId, WorkerId},
    name::{InvalidName, Kind, QueueName},
    priority::{InvalidPriority, Priority},
    run_lease::RunLease,
    state::{JobState, Plane, UnknownState},
    transition::{EDGES, Edge, Transition},
};
