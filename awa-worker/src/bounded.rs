//! A limit for every statement of the worker: a connection that died without a word must not hold it up for ever.

use std::future::Future;
use std::io;
use std::time::Duration;

use awa_storage::Error;

/// Far longer than any of these statements takes.
const STATEMENT_MAX: Duration = Duration::from_secs(60);

/// Runs a statement for as long as is reasonable. Cut off, it may still have committed, as after a broken connection.
pub(crate) async fn bounded<T>(statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    within(STATEMENT_MAX, statement).await
}

/// Runs a statement for this long at most.
pub(crate) async fn within<T>(limit: Duration, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let answer = tokio::time::timeout(limit, statement).await;
    answer.unwrap_or_else(|_| Err(Error::from(sqlx::Error::Io(io::ErrorKind::TimedOut.into()))))
}
