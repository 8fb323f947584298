//! The database schema of Awa and the runner that installs it.
//!
//! `migrations/NNNN_name.sql` only ever go forward; `migrations/functions/*.sql` are installed again whenever any of
//! them changed or a migration was applied. Both are embedded: a binary carries the schema that it needs.
//!
//! **Guarantees.** [`migrate`] is one transaction, so the schema is either the old one or the new one. It may be raced
//! by any number of processes, which then all succeed, and dropped at any await: the transaction belongs to a task of
//! its own. It waits for locks only briefly ([`Options`]), then lets traffic through and tries again. It needs no more
//! than the right to create the schema `awa`. It never touches a schema newer than the binary: [`Error::TooNew`].
//!
//! sqlx's own migrator is not used: it takes a session lock, which is lost behind a transaction pooler and leaks when a
//! future is dropped, and it keeps its history in a table that belongs to the service.

mod comments;
mod display;
mod error;
mod history;
mod runner;
mod schema;
mod script;

pub use error::Error;
pub use history::{Applied, FunctionsStatus, Status};
pub use runner::{Options, Report, migrate, migrate_with, require_current, status, status_of};
pub use schema::{Function, Migration, Schema};
pub use script::script;
