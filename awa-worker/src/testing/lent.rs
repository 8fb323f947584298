//! One connection for everybody: its owner serves what the others ask for, one request after the other.
//!
//! A drain inside an open transaction has a single connection, borrowed from the test, while handlers run on tasks of their
//! own. So a handler sends what it wants done, and the drain does it while it waits for the handler.

use awa_storage::Error;
use futures_util::future::BoxFuture;
use sqlx::PgConnection;
use tokio::sync::{mpsc, oneshot};

/// Something to be done on the connection.
pub(super) type Request = Box<dyn for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, ()> + Send>;

/// What came of it.
type Answer<T> = Result<T, Error>;

/// Asks for the connection.
pub(super) struct Borrower(mpsc::UnboundedSender<Request>);

/// Makes a borrower, and what the owner of the connection listens to.
pub(super) fn lend() -> (Borrower, mpsc::UnboundedReceiver<Request>) {
    let (ask, asked) = mpsc::unbounded_channel();
    (Borrower(ask), asked)
}

impl Borrower {
    /// Has something done, and waits for the answer. An error once the drain is over: the connection is gone then.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        what: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Answer<T>> + Send + 'static,
    ) -> Answer<T> {
        let (tell, told) = oneshot::channel();
        let request: Request = Box::new(move |db| {
            Box::pin(async move {
                // Nobody listens if the handler has stopped waiting; it was done all the same.
                let _ = tell.send(what(db).await);
            })
        });
        let closed = || Error::Database(sqlx::Error::PoolClosed);
        self.0.send(request).map_err(|_| closed())?;
        told.await.unwrap_or_else(|_| Err(closed()))
    }
}
