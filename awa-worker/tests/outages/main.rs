//! What a worker does when the database goes away, stalls, refuses or comes back changed, and what is left of a call that
//! was given up half way. Nothing here waits for a time to pass: tests wait for events, with a bound that only a broken
//! build reaches. Some events are the end of a timeout of Awa's own, so that a few tests take that long.
#![allow(missing_docs, reason = "test code")]
#![allow(clippy::disallowed_methods, reason = "tests look at tables, as they judge what they find there")]

mod cut;
mod draining;
mod dropping;
mod elsewhere;
mod holders;
#[path = "../it/log.rs"]
#[allow(dead_code, reason = "shared with the other suite")]
mod log;
mod pooler;
mod proxy;
mod restarts;
mod server;
mod settings;
mod simple;
mod small_pools;
mod stalls;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the other suite")]
mod support;
mod vacuumed;
mod worker;
