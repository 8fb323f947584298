//! Completing the job in the handler's own transaction.

use awa_model::Outcome;
use awa_storage::{Guarded, settle};
use serde::Serialize;
use sqlx::PgExecutor;

use super::JobContext;
use crate::attempts::CancelReason;
use crate::failure::Error;
use crate::handler::result_text;

impl JobContext {
    /// Completes the job inside a transaction of the handler's own, so that what the handler writes there and the end of the
    /// job happen together or not at all: exactly once, whatever dies.
    ///
    /// ```no_run
    /// # use awa_worker::{Data, JobContext, JobError, Outcome, sqlx};
    /// # async fn handler(amount: i64, context: JobContext, pool: Data<sqlx::PgPool>) -> Result<Outcome<i64>, JobError> {
    /// let mut tx = pool.begin().await?;
    /// sqlx::query("update accounts set balance = balance + $1").bind(amount).execute(&mut *tx).await?;
    /// let completed = context.complete_in(&mut *tx, amount).await?;
    /// tx.commit().await?;
    /// Ok(completed)
    /// # }
    /// ```
    ///
    /// Commit, then return the outcome that this gives. The worker looks whether the job is completed: if the transaction was
    /// rolled back after all, or never committed, the attempt has failed and is retried as after any error. Once it is
    /// committed, nothing that the handler returns, and no panic, changes the job any more. Nor does another transaction: one
    /// that is tried again because nobody knows whether the first was committed gets [`Error::LeaseLost`] if it was, and has
    /// to be rolled back. Dropping this future leaves the transaction to the handler, with the completion in it or not.
    ///
    /// The transaction has to be on the database that the job is in. Call this last: the job's row stays locked until the
    /// transaction ends, so that meanwhile this attempt gives no signs of life (nobody takes the job away while it is locked)
    /// and `flush` and steps fail. The job's progress is cleared.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when this attempt is over: roll back, and return. [`Error::InvalidResult`] for an output that
    /// cannot be stored as JSON. [`Error::Storage`] when the database refused: the transaction is aborted then. A transaction
    /// of isolation REPEATABLE READ or SERIALIZABLE is refused when a heartbeat came after its first statement: use READ
    /// COMMITTED, or keep it shorter than the heartbeat interval.
    pub async fn complete_in<T: Serialize + 'static>(
        &self,
        db: impl PgExecutor<'_>,
        output: T,
    ) -> Result<Outcome<T>, Error> {
        let result = result_text(&output)?;
        drop(output);
        // Before the row is locked: from then on, heartbeats of this attempt must not hold up those of others.
        self.attempt.completes_itself();
        let store = &self.services.store;
        if !store.has_rows() && store.fate(&self.attempt.held).await?.is_none() {
            // A rehearsal: the handler's transaction may be real, but there is no job in it.
            return Ok(Outcome::Committed);
        }
        match settle::complete_in(db, &self.attempt.held, result.as_deref()).await? {
            Guarded::Applied(()) => Ok(Outcome::Committed),
            Guarded::Lost => {
                let fate = store.fate(&self.attempt.held).await.ok().flatten();
                self.attempt.cancel(fate.map_or(CancelReason::LeaseLost, CancelReason::of));
                Err(Error::LeaseLost)
            }
        }
    }
}
