//! What can keep a schema from being migrated or used, each with what to do about it.

/// Why a schema cannot be migrated or used. Nothing was changed whenever one of these is returned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database was migrated by a newer release. Deploy that release, or a newer one.
    #[error(
        "the database has awa schema version {found}, newer than version {known} that this binary knows; \
         nothing was changed: deploy a binary that knows version {found}"
    )]
    TooNew {
        /// Version of the database.
        found: i32,
        /// Newest version that this binary knows.
        known: i32,
    },

    /// The database needs migrating before it can be used.
    #[error(
        "the database has awa schema version {found}, this binary needs version {needed}: \
         run `awa migrate` or call `awa_worker::migrate(&pool)`"
    )]
    TooOld {
        /// Version of the database; 0 if it has no awa schema.
        found: i32,
        /// Version that this binary needs.
        needed: i32,
    },

    /// The tables are current but the functions are of another build.
    #[error(
        "the database has awa schema version {version}, but its functions (release {found}) are not those of this \
         binary (release {needed}): run `awa migrate` or call `awa_worker::migrate(&pool)`"
    )]
    OtherFunctions {
        /// Version of the database, which is the one that this binary needs.
        version: i32,
        /// Release that installed the functions.
        found: String,
        /// Release of this binary.
        needed: String,
    },

    /// A migration that the database has is not the one that this binary has under its number.
    #[error(
        "migration {version:04}_{name} was applied with another text than this binary has: \
         migrations never change; restore the file, or start from an empty database"
    )]
    Changed {
        /// Number of the migration.
        version: i32,
        /// Name of the migration as this binary has it.
        name: String,
    },

    /// The history has a hole, so it was edited by hand.
    #[error("awa.schema_migrations lacks version {version} although later ones were applied: restore the row")]
    Hole {
        /// The version that is missing.
        version: i32,
    },

    /// Texts, keys and hashes are defined over UTF-8.
    #[error(
        "the database is encoded in {found}, awa needs UTF8: `create database … encoding 'UTF8' template template0`"
    )]
    Encoding {
        /// The encoding of the database.
        found: String,
    },

    /// Statements of awa rely on seeing what committed while they waited.
    #[error(
        "default_transaction_isolation is `{found}`, awa needs `read committed`: \
         `alter database … set default_transaction_isolation = 'read committed'`"
    )]
    Isolation {
        /// The default of this role in this database.
        found: String,
    },

    /// PostgreSQL 14 is the oldest that works.
    #[error("the server is PostgreSQL {found}, awa needs 14 or newer")]
    Server {
        /// Version as the server states it.
        found: String,
    },

    /// Traffic held the locks that a migration needs, each time it was tried.
    #[error(
        "{step} could not get its locks in {attempts} attempts: end long transactions on awa's tables and run again"
    )]
    Blocked {
        /// The file that was being run.
        step: String,
        /// How often it was tried.
        attempts: u32,
        /// The last refusal.
        source: sqlx::Error,
    },

    /// A file failed.
    #[error("{step} failed")]
    Step {
        /// The file that was being run.
        step: String,
        /// What the server said.
        source: sqlx::Error,
    },

    /// The server could not be reached, or refused a statement of the runner itself.
    #[error("the database could not be migrated or read")]
    Database(#[from] sqlx::Error),
}
