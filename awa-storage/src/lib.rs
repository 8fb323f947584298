//! All statements of the Awa job queue: enqueue, claim, settle, heartbeat, and what maintenance needs.
//!
//! Map: each module is an essay and a few functions; its statements are in `queries/<module>/`, checked against the schema at
//! compile time, and call the functions of `migrations/functions/`.
//!
//! What the crate guarantees:
//!
//! - Every write about an attempt is guarded by its [`Lease`] and answers applied, lost, or an error ([`Guarded`]).
//! - A lease is called lost only after a second statement over all segments has not found it either.
//! - Every function is one statement at a time in autocommit: a dropped future leaves no transaction behind.
//! - An available job of a known kind is found by the first look that begins after its transaction has ended ([`claim`]).

pub mod admin;
pub mod attempt;
pub mod audit;
pub mod callback;
pub mod claim;
pub mod enqueue;
mod error;
pub mod fate;
mod guarded;
pub mod leader;
mod lease;
pub mod notify;
pub mod promote;
pub mod prune;
pub mod queue;
pub mod rescue;
pub mod ring;
pub mod schedule;
pub mod schema;
pub mod session;
pub mod settle;
#[cfg(feature = "testing")]
pub mod testing;
pub mod unique;
pub mod workers;

pub use self::{
    claim::{Claimed, Cursors},
    error::Error,
    guarded::Guarded,
    lease::{Held, Lease},
};
