//! What a worker promises, each claim on a database of its own. Nothing here waits for a time to pass: tests wait for
//! events, with a bound that only a broken build reaches.
#![allow(missing_docs, reason = "test code")]
#![allow(clippy::disallowed_methods, reason = "tests look at tables, as they judge what they find there")]

mod access;
mod builder;
mod callbacks;
mod cancelling;
mod completing;
mod displaced;
mod handlers;
mod importing;
mod killed;
mod kind_limits;
mod kit;
mod leases;
mod lifecycle;
mod log;
mod maintaining;
mod middleware;
mod operators;
mod outliving;
mod panics;
mod pausing;
mod pinned;
mod poison;
mod processes;
mod producers;
mod progress;
mod readme;
mod restore;
mod retries;
mod runs;
mod schedules;
mod settling;
mod shutdown;
mod statements;
mod steps;
mod support;
mod texts;
mod timeouts;
mod wakeups;
mod watching;
