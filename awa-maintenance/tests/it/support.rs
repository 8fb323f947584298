//! Statements for the tests, and a duty that does as it is told.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use awa_maintenance::{Duty, Error, MaintenanceConfig, Next, Pass};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tracing::Span;

pub(crate) async fn run(pool: &PgPool, statement: &str) {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(pool).await.expect(statement);
}

pub(crate) async fn count(pool: &PgPool, statement: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(statement.to_owned())).fetch_one(pool).await.expect(statement)
}

/// Short pauses, so that a test that waits for the third pass does not wait for long.
pub(crate) fn quick() -> MaintenanceConfig {
    MaintenanceConfig {
        retry_interval: Duration::from_millis(1),
        leader_term: Duration::from_secs(3),
        ..MaintenanceConfig::default()
    }
}

/// What a scripted duty does in its passes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Script {
    /// Ends well.
    Work,
    /// Never ends.
    Hang,
    /// Fails or panics this many times, then works.
    FailFirst(usize),
    /// Panics this many times, then works.
    PanicFirst(usize),
}

/// A duty that follows a script and tells the test of each pass that ended well.
#[derive(Debug)]
pub(crate) struct Scripted {
    script: Script,
    passes: AtomicUsize,
    told: UnboundedSender<()>,
}

impl Scripted {
    pub(crate) fn new(script: Script) -> (Self, UnboundedReceiver<()>) {
        let (told, heard) = unbounded_channel();
        (Self { script, passes: AtomicUsize::new(0), told }, heard)
    }
}

#[async_trait]
impl Duty for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn span(&self) -> Span {
        Span::none()
    }

    async fn pass(&self) -> Result<Pass, Error> {
        let before = self.passes.fetch_add(1, Ordering::Relaxed);
        match self.script {
            Script::Hang => pending().await,
            Script::FailFirst(times) if before < times => return Err(Error::TimedOut { after: Duration::ZERO }),
            Script::PanicFirst(times) if before < times => panic!("as the script says"),
            Script::Work | Script::FailFirst(_) | Script::PanicFirst(_) => {}
        }
        // The test may have heard enough.
        let _ = self.told.send(());
        Ok(Pass { changed: 0, next: Next::In(Duration::from_millis(1)) })
    }
}
