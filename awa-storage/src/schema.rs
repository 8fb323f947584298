//! The schema that the statements of this crate were checked against: installing it, and refusing any other.
//!
//! A statement that meets a schema of another version fails in ways that explain nothing, at the first job rather than
//! at the start. So whoever starts asks once, and gets one error that names both versions and the command.

pub use awa_migrations::{Error, Report, Status, script};
use sqlx::PgPool;

/// Takes the database to the schema of this build: tables, functions and all.
///
/// One transaction, safe to race and to repeat; a dropped future leaves the work to end by itself, as a whole or not at
/// all. A schema newer than this build is refused and left as it is. See [`awa_migrations`] for the details.
pub async fn migrate(pool: &PgPool) -> Result<Report, Error> {
    awa_migrations::migrate(pool).await
}

/// What the database has and what [`migrate`] would do. Writes nothing.
pub async fn status(pool: &PgPool) -> Result<Status, Error> {
    awa_migrations::status(pool).await
}

/// Refuses a database whose schema is not the one of this build: [`Error::TooOld`] (also where there is none),
/// [`Error::TooNew`] or [`Error::OtherFunctions`], each naming what was found, what is needed and what to run.
///
/// Reads only. Functions of a newer release over the same tables are accepted: they stay fit for older binaries.
pub async fn require_current_schema(pool: &PgPool) -> Result<(), Error> {
    awa_migrations::require_current(pool).await
}
