//! A limit for every statement of the worker: a connection that died without a word must not hold it up for ever, nor a
//! database that hangs the end of the process.

use std::future::Future;
use std::io;
use std::time::Duration;

use awa_storage::Error;
use tokio::select;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Far longer than any of these statements takes.
pub(crate) const STATEMENT_MAX: Duration = Duration::from_secs(20);

/// The same once the worker drains: somebody waits for its end then.
pub(crate) const DRAINING_STATEMENT_MAX: Duration = Duration::from_secs(5);

/// How long the statements of one worker are waited for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patience {
    /// Fired first: nothing is claimed from here on, while everything else goes on.
    pub(crate) draining: CancellationToken,
    /// Fired last: handlers are cut off at their next await, and settlements that still fail are given up.
    pub(crate) abandoned: CancellationToken,
}

impl Patience {
    /// Runs a statement for as long as is reasonable. Cut off, it may still have committed, as after a broken connection.
    pub(crate) async fn bounded<T>(&self, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        select! {
            biased;
            answer = within(STATEMENT_MAX, statement) => answer,
            () = self.over() => Err(timed_out()),
        }
    }

    /// Resolves when a statement that is on its way is not worth waiting for any longer.
    async fn over(&self) {
        select! {
            () = async { self.draining.cancelled().await; sleep(DRAINING_STATEMENT_MAX).await } => {}
            () = self.abandoned.cancelled() => {}
        }
    }
}

/// Runs a statement for this long at most.
pub(crate) async fn within<T>(limit: Duration, statement: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(limit, statement).await.unwrap_or_else(|_| Err(timed_out()))
}

fn timed_out() -> Error {
    Error::from(sqlx::Error::Io(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a statement that never answers is waited for.
    async fn waited(patience: Patience, meanwhile: impl Future<Output = ()>) -> Duration {
        let began = tokio::time::Instant::now();
        let (answer, ()) = tokio::join!(patience.bounded(std::future::pending::<Result<(), Error>>()), meanwhile);
        assert!(answer.is_err_and(|error| error.is_transient()));
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn no_statement_is_waited_for_longer_than_the_limit_of_the_moment() {
        let patience = Patience::default();
        assert_eq!(waited(patience.clone(), async {}).await, STATEMENT_MAX);
        // Also one that was on its way when the drain began.
        let later = async {
            sleep(Duration::from_secs(3)).await;
            patience.draining.cancel();
        };
        assert_eq!(waited(patience.clone(), later).await, Duration::from_secs(3) + DRAINING_STATEMENT_MAX);
        assert_eq!(waited(patience.clone(), async {}).await, DRAINING_STATEMENT_MAX);
        let later = async {
            sleep(Duration::from_secs(1)).await;
            patience.abandoned.cancel();
        };
        assert_eq!(waited(patience.clone(), later).await, Duration::from_secs(1));
    }
}
