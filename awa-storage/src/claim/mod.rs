//! Claiming: how a process finds the next jobs without an index on state, and never misses one.
//!
//! [`Cursors`] holds what one process knows about its lanes. Three tasks use it: the dispatcher calls
//! [`claim`](Cursors::claim), a ticker calls [`tick`](Cursors::tick) while work flows, and an idle process calls
//! [`pulse`](Cursors::pulse) instead, which costs one cheap statement. The rules and their proof are in docs/adr/0002; the
//! pure parts are [`Horizon`] and the lanes, the SQL is in `migrations/functions/{claim,look,horizon,still_available}.sql`.
//!
//! What is known here lives in memory alone. A crash or failover of the server removes the unlogged row of
//! `awa.incarnation`; a changed incarnation makes the process forget everything and start from the persisted marks.

mod claimed;
mod cursors;
mod horizon;
mod lanes;

pub(crate) use self::cursors::idle_writers;
pub use self::{
    claimed::Claimed,
    cursors::{Cursors, Pulse, Tick},
    horizon::{Horizon, Observation, PATIENCE},
};
