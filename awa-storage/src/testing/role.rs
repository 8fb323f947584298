//! Roles without any right, for tests of who may do what. Roles belong to the whole server: each has a name of its own and
//! goes with its value.

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use uuid::Uuid;

use super::{TestDatabase, run};

/// A role that may log in and nothing else, until this value is dropped.
#[derive(Debug)]
pub struct TestRole {
    name: String,
    admin: PgConnectOptions,
    database: PgConnectOptions,
}

impl TestRole {
    /// Makes a role for tests in `database`.
    ///
    /// # Panics
    /// If it cannot be made.
    pub async fn new(database: &TestDatabase) -> Self {
        // A name that needs quotes wherever it is written.
        let name = format!("Awa \"{}\" $$'", Uuid::new_v4().simple());
        let role = Self { name, admin: database.server.clone(), database: database.options() };
        let mut admin = role.database.connect().await.expect("the server answers");
        run(&mut admin, format!("create role {} login password 'plain'", role.quoted())).await.expect("a role");
        role
    }

    /// Makes a role that owns the schema of an empty `database`, and migrates as it: a plain owner, as services have.
    ///
    /// # Panics
    /// If it cannot be made, or cannot migrate.
    pub async fn owner(database: &TestDatabase) -> Self {
        let role = Self::new(database).await;
        let mut admin = role.admin.connect().await.expect("the server answers");
        run(&mut admin, format!("grant create on database {} to {}", database.name(), role.quoted()))
            .await
            .expect("granted");
        let pool = role.pool();
        awa_migrations::migrate(&pool).await.expect("a plain owner can migrate");
        pool.close().await;
        role
    }

    /// Gives the role bundles of `awa.grant_access`.
    ///
    /// # Panics
    /// If there is no such bundle.
    pub async fn grant(&self, bundles: &[&str]) {
        let mut admin = self.database.connect().await.expect("the server answers");
        for bundle in bundles {
            let granted =
                sqlx::query("select awa.grant_access($1, $2)").bind(&self.name).bind(bundle).execute(&mut admin);
            granted.await.expect("a bundle");
        }
    }

    /// Its bare name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name as SQL writes it.
    pub fn quoted(&self) -> String {
        format!("\"{}\"", self.name.replace('"', "\"\""))
    }

    /// How to connect to the database as this role.
    pub fn options(&self) -> PgConnectOptions {
        self.database.clone().username(&self.name).password("plain")
    }

    /// A pool of connections of this role.
    pub fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(4).connect_lazy_with(self.options())
    }

    /// A connection of this role.
    ///
    /// # Panics
    /// If the server does not answer.
    pub async fn connect(&self) -> PgConnection {
        self.options().connect().await.expect("the server answers")
    }
}

impl Drop for TestRole {
    fn drop(&mut self) {
        let (admin, database, role) = (self.admin.clone(), self.database.clone(), self.quoted());
        // As for a TestDatabase: a thread with a runtime of its own can await.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                // What it owns goes with the database, where that is gone already.
                if let Ok(mut inside) = database.connect().await {
                    run(&mut inside, format!("drop owned by {role} cascade")).await?;
                }
                run(&mut admin.connect().await?, format!("drop role if exists {role}")).await
            })
        });
        if let Ok(Err(error)) = dropping.join() {
            eprintln!("role {} was not dropped: {error}", self.name);
        }
    }
}
