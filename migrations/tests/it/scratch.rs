//! An empty database for each test, and schemas of a few lines.
//!
//! awa-storage has the like of it for tests of jobs, which start from a migrated database; it stands above this crate.

use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};

use awa_migrations::{Function, Migration, Schema};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Row as _};

/// A database that goes with the value.
pub(crate) struct Scratch {
    server: PgConnectOptions,
    name: String,
}

impl Scratch {
    pub(crate) async fn new() -> Self {
        Self::with("encoding 'UTF8'").await
    }

    /// A database made with these options of `create database`.
    pub(crate) async fn with(options: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let url = std::env::var("AWA_TEST_DATABASE_URL")
            .expect("AWA_TEST_DATABASE_URL is not set: run the tests by `cargo xtask test`");
        let server = PgConnectOptions::from_str(&url).expect("a URL").disable_statement_logging();
        let name = format!("awa_test_runner_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let create = format!("create database {name} template template0 {options}");
        on(&mut server.connect().await.expect("the server answers"), &create).await;
        Self { server, name }
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// The URL of the database, for other programs.
    pub(crate) fn url(&self) -> String {
        self.options().to_url_lossy().to_string()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A new pool of up to `connections`.
    pub(crate) fn pool(&self, connections: u32) -> PgPool {
        pool(self.options(), connections)
    }

    pub(crate) async fn connect(&self) -> PgConnection {
        self.options().connect().await.expect("the server answers")
    }

    /// Waits until the answer to `question`, a boolean, is yes. Each look is a round trip; there is no other pause.
    pub(crate) async fn until(&self, question: &str) {
        let mut connection = self.connect().await;
        let begun = std::time::Instant::now();
        while !ask(&mut connection, question).await.get::<bool, _>(0) {
            assert!(begun.elapsed().as_secs() < 60, "still not so: {question}");
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("drop database if exists {} with (force)", self.name));
        // Drop cannot await: a thread with a runtime of its own does it, also while a panic unwinds.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async { on(&mut server.connect().await.expect("the server answers"), &drop).await });
        });
        let _ = dropping.join();
    }
}

pub(crate) fn pool(options: PgConnectOptions, connections: u32) -> PgPool {
    PgPoolOptions::new().max_connections(connections).connect_lazy_with(options)
}

/// Runs statements.
pub(crate) async fn on(connection: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(connection).await.expect("the statement runs");
}

/// Runs a query of one row.
pub(crate) async fn ask(connection: &mut PgConnection, sql: &str) -> PgRow {
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.expect("the query runs")
}

/// Everything in schema awa, and the history, as one text: "and nothing was changed" is a comparison of two.
pub(crate) async fn snapshot(scratch: &Scratch) -> String {
    let mut connection = scratch.connect().await;
    let objects = "select coalesce(string_agg(concat_ws(' ', oid, relname, relfilenode), ',' order by oid), '')
                     from pg_class where relnamespace = to_regnamespace('awa')";
    let functions = "select coalesce(string_agg(concat_ws(' ', oid, proname, xmin), ',' order by oid), '')
                       from pg_proc where pronamespace = to_regnamespace('awa')";
    let mut text: String = ask(&mut connection, objects).await.get(0);
    text.push_str(&ask(&mut connection, functions).await.get::<String, _>(0));
    if ask(&mut connection, "select to_regclass('awa.schema_migrations') is not null").await.get(0) {
        let rows = "select string_agg(history::text, ',' order by version) from awa.schema_migrations as history";
        text.push_str(&ask(&mut connection, rows).await.get::<Option<String>, _>(0).unwrap_or_default());
    }
    text
}

/// The embedded schema with further migrations.
pub(crate) fn extended(steps: &[&'static str]) -> Schema {
    let embedded = Schema::embedded();
    let mut migrations = embedded.migrations().to_vec();
    for sql in steps {
        let version = i32::try_from(migrations.len()).expect("few") + 1;
        migrations.push(Migration { version, name: "added", sql });
    }
    Schema::new(migrations, embedded.functions().to_vec(), embedded.release())
}

/// A schema of one function.
pub(crate) fn probe(sql: &'static str, release: &str) -> Schema {
    Schema::new(Vec::new(), vec![Function { name: "probe", sql }], release)
}
