//! One outcome in the hands of whoever ran the attempt: how the testing kit settles, without a task and without batches.

use awa_storage::settle::{Completion, Settlement, complete_alone, settle_alone};
use awa_storage::{Error, Guarded};
use sqlx::PgConnection;

use super::{Finished, Outcome, Owed, completed};
use crate::attempts::CancelReason;
use crate::taken;

/// How an attempt ended, where no database is to hear of it.
pub(crate) enum Unwritten {
    Completed(Completion),
    Settled(Settlement),
}

impl Finished {
    /// Writes the outcome on this connection. After an error the attempt is given up: rescue will find it.
    pub(crate) async fn settle_on(self, db: &mut PgConnection) -> Result<(), Error> {
        let answer = match &self.outcome {
            Outcome::Completed(row) => completed(complete_alone(db, row).await?),
            Outcome::Settled(row) => settle_alone(db, row).await?,
        };
        if answer == Guarded::Lost {
            self.owed.attempt.cancel(CancelReason::LeaseLost);
            taken::discarded(&self.owed.attempt);
        }
        self.owed.let_go();
        Ok(())
    }

    /// Lets go of the attempt as if the outcome had been written, and says what it is.
    pub(crate) fn unwritten(self) -> Unwritten {
        self.owed.let_go();
        match self.outcome {
            Outcome::Completed(row) => Unwritten::Completed(row),
            Outcome::Settled(row) => Unwritten::Settled(row),
        }
    }
}

impl Owed {
    fn let_go(mut self) {
        self.engine.attempts.release([&self.attempt]);
        self.engine.watched.settled([self.attempt.job_id()]);
        self.settled = true;
    }
}
