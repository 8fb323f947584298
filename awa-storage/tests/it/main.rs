//! What the statements promise, each claim on a database of its own.

mod attempt;
mod claim;
mod enqueue;
mod guards;
mod notify;
mod plans;
mod producers;
mod producing;
mod schema;
mod settle;
mod support;
mod testing;
mod unique;
