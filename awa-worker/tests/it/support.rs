//! What all tests here use: a database with a pool, jobs to look at, and patience.

use std::future::Future;
use std::time::Duration;

use awa_storage::promote::{PromoteCursor, promote};
use awa_storage::testing::TestDatabase;
use awa_worker::{Client, ClientBuilder, Inserted, IntoNewJob, JobArgs, Running, Shutdown, ShutdownReport};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::PgPool;
use tokio::sync::{mpsc, watch};

/// Far more than anything here takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The job of most tests; what it does is up to the handler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JobArgs)]
#[job(kind = "probe", output = Value)]
pub(crate) struct Probe {
    pub(crate) name: String,
}

/// A job without any output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JobArgs)]
#[job(kind = "other")]
pub(crate) struct Other {
    pub(crate) number: i64,
}

pub(crate) fn probe(name: &str) -> Probe {
    Probe { name: name.to_owned() }
}

/// A job as the database has it.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub(crate) struct Row {
    pub(crate) state: String,
    pub(crate) attempt: i16,
    pub(crate) run_lease: i64,
    pub(crate) snoozes: i32,
    /// Less its generation, which counts reports.
    pub(crate) progress: Option<Value>,
    pub(crate) result: Option<Value>,
    pub(crate) errors: Option<Value>,
}

impl Row {
    /// The text of the newest error.
    pub(crate) fn last_error(&self) -> &str {
        let errors = self.errors.as_ref().and_then(Value::as_array);
        errors.and_then(|errors| errors.last()).and_then(|error| error["error"].as_str()).unwrap_or_default()
    }
}

/// A database of the test's own.
pub(crate) struct Rig {
    pub(crate) database: TestDatabase,
    pub(crate) pool: PgPool,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::of(TestDatabase::new().await)
    }

    /// For tests of what a pooler takes away, and of connections as the server sees them.
    pub(crate) async fn with_sessions() -> Self {
        Self::of(TestDatabase::with_sessions().await)
    }

    fn of(database: TestDatabase) -> Self {
        let pool = database.pool();
        Self { database, pool }
    }

    /// A client as tests like it: quick to beat, and without maintenance, which tests do by hand.
    pub(crate) fn client(&self) -> ClientBuilder {
        Client::builder(self.pool.clone())
            .heartbeat_interval(Duration::from_millis(100))
            .stale_after(Duration::from_secs(5))
            .cancel_grace(Duration::from_millis(100))
            .without_maintenance()
    }

    pub(crate) async fn enqueue<J: IntoNewJob>(&self, job: J) -> i64 {
        match awa_worker::enqueue(&self.pool, job).await.expect("enqueued") {
            Inserted::New(id) => id.get(),
            Inserted::Duplicate(id) | Inserted::Replaced(id) => panic!("job {id} is a duplicate"),
        }
    }

    pub(crate) async fn row(&self, id: i64) -> Row {
        sqlx::query_as(
            "select state::text, attempt, run_lease, snoozes, result, errors,
                    case jsonb_typeof(progress) when 'object' then progress - 'generation' else progress end as progress
               from awa.jobs where id = $1",
        )
        .bind(id)
        .fetch_one(&self.pool)
        .await
        .expect("one row a job")
    }

    /// Waits until the job is in this state, and returns it.
    pub(crate) async fn state(&self, id: i64, state: &str) -> Row {
        let reached = async {
            loop {
                let row = self.row(id).await;
                if row.state == state {
                    return row;
                }
            }
        };
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(row) => row,
            Err(_) => panic!("job {id} is not {state} but {:?}", self.row(id).await),
        }
    }

    pub(crate) async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.expect(sql);
    }

    pub(crate) async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.expect(sql)
    }

    /// Makes everything due and promotes it.
    pub(crate) async fn promote(&self) {
        self.execute("update awa.scheduled_jobs set run_at = now()").await;
        let mut cursor = PromoteCursor::default();
        promote(&self.pool, &mut cursor, 1000).await.expect("promoted");
    }
}

/// Waits for something that must come.
pub(crate) async fn soon<T>(what: &str, event: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, event).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain: {what}"),
    }
}

/// Looks until it is true. Each look should ask the database or yield.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut look: impl FnMut() -> F) {
    soon(what, async {
        while !look().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Ends the worker after its running jobs.
pub(crate) async fn drain(running: &Running) -> ShutdownReport {
    soon("drain", running.shutdown(Shutdown::Drain { timeout: PATIENCE })).await.expect("an orderly end")
}

/// Something that handlers report to the test.
pub(crate) fn events<T>() -> (mpsc::UnboundedSender<T>, mpsc::UnboundedReceiver<T>) {
    mpsc::unbounded_channel()
}

/// A gate that handlers wait at until the test opens it.
#[derive(Clone)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    pub(crate) async fn passed(&self) {
        let mut gate = self.0.subscribe();
        gate.wait_for(|open| *open).await.expect("the sender is in self");
    }
}
