//! What the statements promise, each claim on a database of its own.

mod attempt;
mod claim;
mod guards;
mod plans;
mod producers;
mod schema;
mod settle;
mod support;
mod testing;
