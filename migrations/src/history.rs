//! What the database says was applied, and the verdict on it: what is left to do, or why nothing may be done.
//!
//! Pure: the runner reads the rows, this module judges them, so every refusal is decided before anything is written.

use crate::{Error, Migration, Schema};

/// Version under which awa.schema_migrations keeps the set of functions.
pub(crate) const FUNCTIONS_VERSION: i32 = 0;

/// One row of awa.schema_migrations.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Applied {
    /// Number of the migration; 0 is the set of functions.
    pub version: i32,
    /// Name of the migration.
    pub name: String,
    /// Hash of the text that was run.
    pub checksum: String,
    /// Release that ran it.
    pub release: String,
    /// Time of the database at which it ran, in ISO 8601.
    pub applied_at: String,
}

/// How the functions of the database compare to those of this binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FunctionsStatus {
    /// The same.
    Current,
    /// None, or others: they will be installed.
    Pending,
    /// Others, installed by a newer release: they are left alone, since that release keeps them fit for this one.
    Newer,
}

/// What the database has and what this binary would do about it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Status {
    /// Version of the database; 0 if it has no awa schema.
    pub found: i32,
    /// Version that this binary needs.
    pub needed: i32,
    /// The numbered migrations that were applied, in order.
    pub applied: Vec<Applied>,
    /// Titles of the migrations still to be applied, in order.
    pub pending: Vec<String>,
    /// The state of the functions.
    pub functions: FunctionsStatus,
    /// Release that installed the functions.
    pub functions_release: Option<String>,
}

impl Status {
    /// Whether this binary can work with the database as it is.
    pub fn is_current(&self) -> bool {
        self.pending.is_empty() && self.functions != FunctionsStatus::Pending
    }

    /// The refusal that a worker meets at its start, if the schema is not the one that it needs.
    pub(crate) fn require_current(&self, schema: &Schema) -> Result<(), Error> {
        if self.is_current() {
            return Ok(());
        }
        if self.found < self.needed {
            return Err(Error::TooOld { found: self.found, needed: self.needed });
        }
        Err(Error::OtherFunctions {
            version: self.found,
            found: self.functions_release.clone().unwrap_or_else(|| "none".to_owned()),
            needed: schema.release().to_owned(),
        })
    }
}

/// Compares the rows of the database, ordered by version, with `schema`.
///
/// Refuses a history that `schema` does not continue: newer, changed or with a hole.
pub(crate) fn judge(rows: Vec<Applied>, schema: &Schema) -> Result<Status, Error> {
    let (functions, applied): (Vec<Applied>, Vec<Applied>) =
        rows.into_iter().partition(|row| row.version == FUNCTIONS_VERSION);
    let found = applied.last().map_or(0, |row| row.version);
    let needed = schema.version();
    // First of all: nothing else can be said about a history that is only known in part.
    if found > needed {
        return Err(Error::TooNew { found, known: needed });
    }
    for (row, migration) in applied.iter().zip(schema.migrations()) {
        check_row(row, migration)?;
    }
    let pending: Vec<String> = pending(found, schema).iter().map(Migration::title).collect();
    Ok(Status {
        functions: judge_functions(functions.first(), schema, !pending.is_empty()),
        functions_release: functions.first().map(|row| row.release.clone()),
        found,
        needed,
        applied,
        pending,
    })
}

/// The migrations after version `found`.
pub(crate) fn pending(found: i32, schema: &Schema) -> &[Migration] {
    let applied = usize::try_from(found).unwrap_or(0).min(schema.migrations().len());
    &schema.migrations()[applied..]
}

fn check_row(row: &Applied, migration: &Migration) -> Result<(), Error> {
    if row.version != migration.version {
        return Err(Error::Hole { version: migration.version });
    }
    if row.checksum != migration.checksum() {
        return Err(Error::Changed { version: migration.version, name: migration.name.to_owned() });
    }
    Ok(())
}

/// A binary of an older release that starts beside newer ones must not put its functions back; a new migration may
/// depend on the functions of its own release, whoever installed those that are there.
fn judge_functions(row: Option<&Applied>, schema: &Schema, migrations_pending: bool) -> FunctionsStatus {
    match row {
        _ if migrations_pending => FunctionsStatus::Pending,
        Some(row) if row.checksum == schema.functions_checksum() => FunctionsStatus::Current,
        Some(row) if release(&row.release) > release(schema.release()) => FunctionsStatus::Newer,
        _ => FunctionsStatus::Pending,
    }
}

/// `1.12.3` as numbers, so that 1.12 is newer than 1.9; what is no number counts as zero.
fn release(text: &str) -> [u64; 3] {
    let mut parts = text.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests;
