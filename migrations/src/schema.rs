//! The schema as a value: numbered migrations and repeatable functions, with the hashes that tell two of them apart.

use sha2::{Digest as _, Sha256};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// One numbered migration; applied once, in order, never changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// 1, 2, 3 …, without a hole.
    pub version: i32,
    /// The file's name without its number.
    pub name: &'static str,
    /// The file's text.
    pub sql: &'static str,
}

impl Migration {
    /// SHA-256 of the text in hexadecimal, the same whatever line ends a checkout uses.
    pub fn checksum(&self) -> String {
        hash([self.sql])
    }

    /// The file's name, such as `0003_job_tables`.
    pub fn title(&self) -> String {
        format!("{:04}_{}", self.version, self.name)
    }
}

/// One file of functions; installed again whenever the set changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// The file's name.
    pub name: &'static str,
    /// The file's text.
    pub sql: &'static str,
}

/// A whole schema: what one binary wants the database to be.
#[derive(Debug, Clone)]
pub struct Schema {
    migrations: Vec<Migration>,
    functions: Vec<Function>,
    release: String,
}

impl Schema {
    /// The schema that this build carries.
    pub fn embedded() -> Self {
        Self::new(MIGRATIONS.to_vec(), FUNCTIONS.to_vec(), env!("CARGO_PKG_VERSION"))
    }

    /// A schema of other parts, for tests of the runner.
    ///
    /// # Panics
    /// If the versions are not 1, 2, 3 … in order.
    pub fn new(migrations: Vec<Migration>, functions: Vec<Function>, release: &str) -> Self {
        for (migration, version) in migrations.iter().zip(1..) {
            assert_eq!(migration.version, version, "migrations are numbered 1, 2, 3 …: {}", migration.title());
        }
        Self { migrations, functions, release: release.to_owned() }
    }

    /// The numbered migrations in order.
    pub fn migrations(&self) -> &[Migration] {
        &self.migrations
    }

    /// The files of functions, in the order in which they are installed.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// The release that carries this schema, as `major.minor.patch`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The newest version; 0 for a schema without migrations.
    pub fn version(&self) -> i32 {
        self.migrations.last().map_or(0, |migration| migration.version)
    }

    /// Hash of all function files, names included.
    pub fn functions_checksum(&self) -> String {
        hash(self.functions.iter().flat_map(|function| [function.name, function.sql]))
    }

    /// Hash of everything: two binaries with the same one need the same database.
    pub fn fingerprint(&self) -> String {
        let mut parts: Vec<String> = self.migrations.iter().map(Migration::checksum).collect();
        parts.push(self.functions_checksum());
        hash(parts.iter().map(String::as_str))
    }
}

/// SHA-256 in hexadecimal over the parts, each ended by a NUL, which no SQL file contains.
fn hash<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part.replace("\r\n", "\n"));
        hasher.update([0]);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
