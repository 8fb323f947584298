//! A database of its own for each test, on the server that `cargo xtask test` starts.
//!
//! The schema is installed once per server, into a template named after its fingerprint; each test gets a copy, which
//! takes tens of milliseconds. Nothing is shared between tests but the template, so they run in parallel.

use std::env;
use std::str::FromStr as _;
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use uuid::Uuid;

mod role;
mod time;
mod waiting;

pub use role::TestRole;
pub use time::age;
pub use waiting::{WAITING_MAX, WaitingJob, waiting};

use awa_model::{JobId, RunLease};

use crate::lease::{Lease, Location};

/// A lease that no claim has made, for running a handler without a database: there is none where it would count.
pub fn pretended_lease(job_id: JobId, run_lease: RunLease) -> Lease {
    Lease::new(job_id, run_lease, Location { segment: 0, block: 0, offset: 0 })
}

/// The variable that names the server: a role there must be allowed to create databases.
pub const SERVER_VARIABLE: &str = "AWA_TEST_DATABASE_URL";

/// The variable that names the same server through a pooler. Where it is set, [`TestDatabase::pool`] leads through that.
pub const POOLER_VARIABLE: &str = "AWA_TEST_POOLER_URL";

/// Key of the session lock under which the template is made. Its connection belongs to one call and is closed by it.
const TEMPLATE_LOCK: &str = "select pg_advisory_lock(7309453123019)";

/// Connections that [`TestDatabase::pool`] may open. A test that needs more makes its own pool from the URL.
const POOL_CONNECTIONS_MAX: u32 = 10;

/// A migrated database that exists as long as this value, and is dropped with it, also by a panic.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: PgConnectOptions,
    pool: PgPool,
}

impl TestDatabase {
    /// Makes a database with the schema of this build.
    ///
    /// # Panics
    /// If there is no server to make it on, or it cannot be made: a test cannot go on then.
    pub async fn new() -> Self {
        let server = server();
        let template = template(&server).await;
        Self::create(way_in(&server), server, &format!("template {template}")).await
    }

    /// The same without any pooler, for tests of what needs a session: listening, and session locks.
    ///
    /// # Panics
    /// As [`TestDatabase::new`].
    pub async fn with_sessions() -> Self {
        let server = server();
        let template = template(&server).await;
        Self::create(server.clone(), server, &format!("template {template}")).await
    }

    /// Makes a database without any schema.
    ///
    /// # Panics
    /// As [`TestDatabase::new`].
    pub async fn empty() -> Self {
        let server = server();
        Self::create(way_in(&server), server, "template template0 encoding 'UTF8'").await
    }

    /// The pool of this database, through the pooler if there is one. Clones share their connections, as pools do.
    pub fn pool(&self) -> PgPool {
        self.pool.clone()
    }

    /// Name of the database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How to connect to the database directly, for what needs a session of its own.
    pub fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// The URL of the database, for other processes, through the pooler if there is one.
    pub fn url(&self) -> String {
        self.pool.connect_options().to_url_lossy().to_string()
    }

    /// A connection outside the pool, for tests that step through interleavings.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn connect(&self) -> PgConnection {
        self.options().connect().await.expect("the server answers")
    }

    async fn create(way_in: PgConnectOptions, server: PgConnectOptions, origin: &str) -> Self {
        let name = format!("awa_test_{}", Uuid::new_v4().simple());
        let mut admin = admin(&server).await;
        run(&mut admin, format!("create database {name} {origin}")).await.expect("the role may create databases");
        admin.close().await.expect("the server answers");
        let pool = PgPoolOptions::new()
            .max_connections(POOL_CONNECTIONS_MAX)
            .acquire_timeout(Duration::from_secs(60))
            .connect_lazy_with(way_in.database(&name));
        Self { name, server, pool }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let (server, statement) = (self.server.clone(), format!("drop database if exists {} with (force)", self.name));
        // Drop cannot await, and the runtime of the test may be going down: a thread with a runtime of its own can.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut admin = server.connect().await?;
                run(&mut admin, statement).await?;
                admin.close().await
            })
        });
        // A database left behind goes with its server; a panic in here would hide the one that the test is about.
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("{} was not dropped: {error}", self.name);
        }
    }
}

/// The server that tests may make databases on.
fn server() -> PgConnectOptions {
    let Ok(url) = env::var(SERVER_VARIABLE) else {
        panic!("{SERVER_VARIABLE} is not set: run the tests by `cargo xtask test`, which starts a PostgreSQL for them")
    };
    let options = PgConnectOptions::from_str(&url).unwrap_or_else(|error| panic!("{SERVER_VARIABLE}: {error}"));
    // Refused statements are what many tests are about.
    options.disable_statement_logging().options([("client_min_messages", "warning")])
}

/// How pools reach the server.
fn way_in(server: &PgConnectOptions) -> PgConnectOptions {
    match env::var(POOLER_VARIABLE) {
        Ok(url) => {
            let pooler = PgConnectOptions::from_str(&url).unwrap_or_else(|error| panic!("{POOLER_VARIABLE}: {error}"));
            server.clone().host(pooler.get_host()).port(pooler.get_port())
        }
        Err(_) => server.clone(),
    }
}

async fn admin(server: &PgConnectOptions) -> PgConnection {
    server.connect().await.unwrap_or_else(|error| panic!("the server of {SERVER_VARIABLE} does not answer: {error}"))
}

/// Name of the template with the schema of this build; made by the first test that asks, while the others wait.
async fn template(server: &PgConnectOptions) -> String {
    let name = format!("awa_template_{}", &awa_migrations::Schema::embedded().fingerprint()[..16]);
    let mut admin = admin(server).await;
    sqlx::raw_sql(TEMPLATE_LOCK).execute(&mut admin).await.expect("the server answers");
    let exists: bool = sqlx::query_scalar("select exists (select from pg_database where datname = $1)")
        .bind(&name)
        .fetch_one(&mut admin)
        .await
        .expect("the server answers");
    if !exists {
        make_template(server, &mut admin, &name).await;
    }
    admin.close().await.expect("the server answers");
    name
}

/// Migrates under a working name first: a template that a killed test left half made must not look complete.
async fn make_template(server: &PgConnectOptions, admin: &mut PgConnection, name: &str) {
    let unfinished = format!("{name}_unfinished");
    run(admin, format!("drop database if exists {unfinished} with (force)")).await.expect("nobody else uses it");
    run(admin, format!("create database {unfinished} template template0 encoding 'UTF8'"))
        .await
        .expect("the role may create databases");
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(server.clone().database(&unfinished));
    let migrated = awa_migrations::migrate(&pool).await;
    pool.close().await;
    migrated.unwrap_or_else(|error| panic!("the schema cannot be installed: {}", chain(&error)));
    run(admin, format!("alter database {unfinished} rename to {name}")).await.expect("the migration has disconnected");
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

async fn run(connection: &mut PgConnection, statement: String) -> Result<(), sqlx::Error> {
    // Names made above, of letters, digits and underscores.
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(connection).await.map(drop)
}
