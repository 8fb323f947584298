//! Takes a database to the schema of this binary: one transaction, on a task that owns it.
//!
//! The order inside the transaction is what makes races harmless: first the advisory lock, then a fresh look at the
//! history (under READ COMMITTED each statement sees what the previous holder committed), then the files. Everything
//! that can be refused is refused before the first write.

use std::borrow::Cow;
use std::time::Duration;

use sqlx::postgres::{PgConnection, PgPool, PgRow};
use sqlx::{AssertSqlSafe, Row as _};

use crate::history::judge;
use crate::script::{SETTINGS, Step, steps};
use crate::{Applied, Error, FunctionsStatus, Schema, Status};

/// Key of the transaction-level advisory lock that migrating processes take, one per database.
const LOCK: &str = "select pg_advisory_xact_lock(7309453123018);";

/// How long a process waits for another one that is migrating.
const PEER_WAIT: Duration = Duration::from_secs(600);

/// The longest pause between two attempts; pauses grow by this much over eight attempts.
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// By a scan of the catalogs, never by `to_regclass`: that answers from the backend's cache, which does not hear of a
/// table that a peer made while this transaction waited for the advisory lock. Locking the catalogs refreshes it.
///
/// This and the next two may run outside the migrating transaction: the simple protocol runs them in one of their own, for
/// which they set the path.
const PRESENT: &str = "set local search_path = pg_catalog, pg_temp;
select exists (
    select from pg_class as relation
      join pg_namespace as namespace on namespace.oid = relation.relnamespace
     where namespace.nspname = 'awa'
       and relation.relname = 'schema_migrations')";

const HISTORY: &str = "set local search_path = pg_catalog, pg_temp;
select version, name, checksum, release,
       to_char(applied_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') as applied_at
  from awa.schema_migrations
 order by version";

const PREFLIGHT: &str = "set local search_path = pg_catalog, pg_temp;
select current_setting('server_version') as server,
       current_setting('server_version_num')::integer / 10000 as major,
       pg_encoding_to_char(encoding)::text as encoding,
       current_setting('default_transaction_isolation') as isolation
  from pg_database
 where datname = current_database()";

/// How patiently migrations wait for the locks that live traffic holds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long one statement may wait for a lock. While it waits, others queue behind it, so this bounds the pause
    /// that traffic sees. Default 2 s.
    pub lock_timeout: Duration,
    /// How often the whole transaction is tried before [`Error::Blocked`]. Default 30.
    pub attempts_max: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { lock_timeout: Duration::from_secs(2), attempts_max: 30 }
    }
}

/// What a call of [`migrate`] did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Version before; 0 for a database without the schema.
    pub from: i32,
    /// Version after.
    pub to: i32,
    /// Titles of the migrations that this call applied.
    pub applied: Vec<String>,
    /// Whether this call installed the functions.
    pub functions_installed: bool,
}

/// Takes the database to the schema of this binary, with default [`Options`].
///
/// Does nothing, and takes no lock, if it is there already. May be raced and repeated freely. If the returned future
/// is dropped, the work goes on in the background and still ends as a whole or not at all.
pub async fn migrate(pool: &PgPool) -> Result<Report, Error> {
    migrate_with(pool, Schema::embedded(), Options::default()).await
}

/// [`migrate`] with a schema and a patience of the caller's choice.
pub async fn migrate_with(pool: &PgPool, schema: Schema, options: Options) -> Result<Report, Error> {
    let before = status_of(pool, &schema).await?;
    if before.is_current() {
        return Ok(report(&before, &before));
    }
    let pool = pool.clone();
    let task = tokio::spawn(async move { attempts(&pool, &schema, &options).await });
    match task.await {
        Ok(result) => result,
        Err(stopped) if stopped.is_panic() => std::panic::resume_unwind(stopped.into_panic()),
        Err(_) => Err(Error::Database(sqlx::Error::WorkerCrashed)),
    }
}

/// What the database has and what [`migrate`] would do. Writes nothing.
pub async fn status(pool: &PgPool) -> Result<Status, Error> {
    status_of(pool, &Schema::embedded()).await
}

/// [`status`] against a schema of the caller's choice.
pub async fn status_of(pool: &PgPool, schema: &Schema) -> Result<Status, Error> {
    let mut connection = pool.acquire().await?;
    judge(history(&mut connection).await?, schema)
}

/// Refuses a database whose schema is not the one that this binary needs, with one error that names both versions and
/// the command to run. Writes nothing.
pub async fn require_current(pool: &PgPool) -> Result<(), Error> {
    let schema = Schema::embedded();
    status_of(pool, &schema).await?.require_current(&schema)
}

/// Tries the transaction until it gets its locks.
async fn attempts(pool: &PgPool, schema: &Schema, options: &Options) -> Result<Report, Error> {
    let mut attempt = 1;
    loop {
        let mut tx = pool.begin().await?;
        let failed = match attempt_in(&mut tx, schema, options).await {
            Ok(report) => {
                tx.commit().await?;
                return Ok(report);
            }
            Err(failed) => failed,
        };
        // The refusal matters more than how the rollback went: a broken connection rolls back by itself.
        let _ = tx.rollback().await;
        match failed {
            Error::Step { source, step } if waited_in_vain(&source) => {
                if attempt >= options.attempts_max {
                    return Err(Error::Blocked { step, attempts: attempt, source });
                }
                tracing::info!(attempt, step, "migration waits for locks that traffic holds");
            }
            other => return Err(other),
        }
        tokio::time::sleep(PAUSE_MAX * attempt.min(8) / 8).await;
        attempt += 1;
    }
}

/// Everything between begin and commit.
async fn attempt_in(connection: &mut PgConnection, schema: &Schema, options: &Options) -> Result<Report, Error> {
    preflight(connection).await?;
    run(connection, Cow::Borrowed(SETTINGS)).await?;
    // lock_timeout covers advisory locks too, and a peer may rightly take longer than traffic should wait.
    run(connection, lock_timeout(PEER_WAIT)).await?;
    run(connection, Cow::Borrowed(LOCK)).await?;
    run(connection, lock_timeout(options.lock_timeout)).await?;
    let before = judge(history(connection).await?, schema)?;
    if before.is_current() {
        return Ok(report(&before, &before));
    }
    for Step { title, sql } in steps(before.found, schema) {
        run(connection, sql).await.map_err(|source| Error::Step { step: title, source })?;
    }
    let after = judge(history(connection).await?, schema)?;
    Ok(report(&before, &after))
}

/// Refuses servers and settings on which awa would not keep its promises.
async fn preflight(connection: &mut PgConnection) -> Result<(), Error> {
    let row = sqlx::raw_sql(PREFLIGHT).fetch_one(connection).await?;
    let encoding: String = row.try_get("encoding")?;
    let isolation: String = row.try_get("isolation")?;
    if row.try_get::<i32, _>("major")? < 14 {
        return Err(Error::Server { found: row.try_get("server")? });
    }
    if encoding != "UTF8" {
        return Err(Error::Encoding { found: encoding });
    }
    if isolation != "read committed" {
        return Err(Error::Isolation { found: isolation });
    }
    Ok(())
}

/// The rows of awa.schema_migrations by version; none if there is no such table.
async fn history(connection: &mut PgConnection) -> Result<Vec<Applied>, Error> {
    // The simple protocol throughout: it prepares nothing, so it works behind any pooler.
    let present = sqlx::raw_sql(PRESENT).fetch_one(&mut *connection).await?;
    if !present.try_get::<bool, _>(0)? {
        return Ok(Vec::new());
    }
    let rows = sqlx::raw_sql(HISTORY).fetch_all(connection).await?;
    rows.iter().map(applied).collect::<Result<_, sqlx::Error>>().map_err(Error::Database)
}

fn applied(row: &PgRow) -> Result<Applied, sqlx::Error> {
    Ok(Applied {
        version: row.try_get("version")?,
        name: row.try_get("name")?,
        checksum: row.try_get("checksum")?,
        release: row.try_get("release")?,
        applied_at: row.try_get("applied_at")?,
    })
}

async fn run(connection: &mut PgConnection, sql: Cow<'static, str>) -> Result<(), sqlx::Error> {
    // Files of this repository and settings made of numbers: nothing here comes from outside.
    let sql = match sql {
        Cow::Borrowed(text) => sqlx::raw_sql(text),
        Cow::Owned(text) => sqlx::raw_sql(AssertSqlSafe(text)),
    };
    sql.execute(connection).await.map(drop)
}

fn lock_timeout(wait: Duration) -> Cow<'static, str> {
    // At least a millisecond: zero would mean for ever.
    Cow::Owned(format!("set local lock_timeout = {};", wait.as_millis().clamp(1, 86_400_000)))
}

/// lock_not_available, deadlock_detected: traffic was in the way, and may not be the next time.
fn waited_in_vain(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("55P03" | "40P01"))
}

fn report(before: &Status, after: &Status) -> Report {
    Report {
        from: before.found,
        to: after.found,
        applied: before.pending.clone(),
        functions_installed: before.functions == FunctionsStatus::Pending,
    }
}
