//! Installing the schema from a service, beside its own migrations.

use sqlx::PgPool;

use crate::failure::Error;

/// Takes the database to the schema that this version needs; does nothing where it is there already.
///
/// Keeps its own list of migrations in the schema `awa`, so a service's own are never touched. Safe to race, to repeat and
/// to drop. Needs a role that may create the schema; workers and producers need not be that role.
///
/// # Errors
/// [`Error::Storage`] if the database refuses it, or its schema is newer than this version knows.
pub async fn migrate(pool: &PgPool) -> Result<(), Error> {
    awa_storage::schema::migrate(pool).await.map_err(awa_storage::Error::from)?;
    Ok(())
}
