//! What the statements promise, each claim on a database of its own.

mod access;
mod attempt;
mod audit;
mod claim;
mod claims;
mod displaced;
mod enqueue;
mod guards;
mod hops;
mod hot;
mod leader;
mod notify;
mod plans;
mod producers;
mod producing;
mod promote;
mod prune;
mod rescue;
mod ring;
mod scene;
mod schema;
mod settle;
mod support;
mod testing;
mod unique;
mod workers;
