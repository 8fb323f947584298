//! Connections that only this product's statements use: what lies behind them, and pools that a dead one cannot clog.
//!
//! A pool of sqlx asks a connection for a sign of life before it takes it back, and waits as long as that takes. One that
//! has died without a word (a network that swallows packets, a stopped server process) would keep its place for ever, and a
//! few of them the whole pool. The pools made here wait for a bounded time and then throw the connection away. They ask before
//! they hand a connection out, too, unless it has answered just now: a busy worker would wait for two answers a statement.
//!
//! Sessions get settings of their own, so that what an administrator has set for people (a `statement_timeout` of seconds,
//! an `idle_session_timeout`) ends no statement of a worker, and so that the server ends those that the worker has given up.
//!
//! Poolers that hand out a session for each transaction (PgBouncer's transaction mode and its like) allow neither such
//! settings nor LISTEN nor session locks. [`Sessions::probe`] tells them from a server. They have to know prepared
//! statements by name, as sqlx uses them: PgBouncer does from version 1.21 on, unless `max_prepared_statements` is 0.

use std::time::Duration;

use sqlx::{
    Connection as _, PgExecutor,
    postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions},
};
use tokio::time::timeout;

use crate::Error;

/// How long a connection may take for a sign of life, before it is used and before it goes back to its pool.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// How long an answer counts. Short against what an outage lasts, long against the pauses of a busy worker.
const ANSWER_COUNTS_FOR: Duration = Duration::from_millis(100);

/// How much longer than its caller the server goes on with a statement.
const STATEMENT_ALLOWANCE: Duration = Duration::from_secs(5);

/// How long a connection that nobody needs is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// How often two connections are compared before they count as sessions of their own. A busy pooler may hide once.
const PROBES: usize = 3;

/// How to connect, and what is known of the other end.
#[derive(Clone, Debug)]
pub struct Sessions {
    options: PgConnectOptions,
    shared: bool,
}

impl Sessions {
    /// Connects, twice at once, and finds out whether a connection is a session of its own.
    ///
    /// # Errors
    ///
    /// If the database cannot be reached, and [`Error::StatementsNotKept`] if a pooler is in between that does not know
    /// prepared statements. Not bounded in time.
    pub async fn probe(options: PgConnectOptions) -> Result<Self, Error> {
        let mut one = PgConnection::connect_with(&options).await?;
        let mut other = PgConnection::connect_with(&options).await?;
        let mut shared = false;
        for _ in 0..PROBES {
            shared = shared || are_shared(&mut one, &mut other).await?;
        }
        // What is left open goes with its socket.
        let _ = tokio::join!(timeout(ANSWER_MAX, one.close()), timeout(ANSWER_MAX, other.close()));
        Ok(Self { options, shared })
    }

    /// Sessions of which nothing is known: as lent ones, in which nothing is set.
    pub const fn unknown(options: PgConnectOptions) -> Self {
        Self { options, shared: true }
    }

    /// Whether a pooler shares sessions between the transactions of several connections. Then nothing may be set for a
    /// session, and nobody can LISTEN.
    pub fn are_shared(&self) -> bool {
        self.shared
    }

    /// How to connect.
    pub fn options(&self) -> &PgConnectOptions {
        &self.options
    }

    /// A pool of at most `connections` that a dead connection cannot clog. Opens nothing yet.
    ///
    /// `acquire_max` bounds the wait for a connection, `statement_max` is how long callers wait for an answer at most.
    pub fn pool(&self, connections: u32, acquire_max: Duration, statement_max: Duration) -> PgPool {
        let options = pool_options(self.shared, statement_max);
        let options = options.max_connections(connections).acquire_timeout(acquire_max).idle_timeout(IDLE_MAX);
        options.connect_lazy_with(self.options.clone())
    }
}

/// What makes a pool one of those described above.
pub(crate) fn pool_options(shared: bool, statement_max: Duration) -> PgPoolOptions {
    let limit = (statement_max + STATEMENT_ALLOWANCE).as_millis().min(i32::MAX as u128).to_string();
    PgPoolOptions::new()
        .after_connect(move |connection, _| {
            let limit = limit.clone();
            Box::pin(async move {
                if !shared {
                    sqlx::query_file!("queries/session/prepare.sql", limit).fetch_one(connection).await?;
                }
                Ok(())
            })
        })
        .test_before_acquire(false)
        .before_acquire(|connection, known| {
            Box::pin(async move { Ok(known.idle_for < ANSWER_COUNTS_FOR || answers(connection).await?) })
        })
        .after_release(|connection, _| Box::pin(answers(connection)))
}

/// Whether the connection can be used on. An error condemns it at once, without a farewell.
async fn answers(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    match timeout(ANSWER_MAX, connection.ping()).await {
        Ok(answer) => answer.map(|()| true),
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Whether two connections can meet in one session. The second one holds on to its session while the first is asked again:
/// where sessions are lent for a transaction, either both have the same, or the first has to get another one.
async fn are_shared(one: &mut PgConnection, other: &mut PgConnection) -> Result<bool, Error> {
    let before = backend(&mut *one).await?;
    let mut held = other.begin().await?;
    let theirs = backend(&mut *held).await?;
    let shared = theirs == before || backend(&mut *one).await? != before;
    held.rollback().await?;
    Ok(shared)
}

/// The process of the server that answers now.
pub(crate) async fn backend(db: impl PgExecutor<'_>) -> Result<i32, Error> {
    Ok(sqlx::query_file_scalar!("queries/session/backend.sql").fetch_one(db).await?)
}
