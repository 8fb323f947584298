//! What the statements promise, each claim on a database of its own.

mod schema;
mod testing;
