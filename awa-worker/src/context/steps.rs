//! Steps: parts of a handler that later attempts need not repeat.

use std::future::Future;

use awa_model::{InvalidName, MetadataChange, ProgressError, check_step_name};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::JobContext;
use crate::error::JobError;
use crate::failure::Error;

/// A step whose name or result cannot be used. Fails the job for good: another attempt would find the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The name is not one of 1 to 128 bytes without control characters. The step has not run.
    #[error(transparent)]
    Name(InvalidName),
    /// The step has run, but its result is no JSON that can be stored, or too large.
    #[error("the result of step {step:?} cannot be kept")]
    Unkept {
        /// The name of the step.
        step: String,
        /// Why not.
        source: ProgressError,
    },
    /// What is kept as the result is not of the type asked for. An earlier version of the handler may have kept it.
    #[error("what step {step:?} has left is not of the type asked for")]
    Unreadable {
        /// The name of the step.
        step: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl JobContext {
    /// Runs a part of the job that later attempts need not repeat, and returns its result.
    ///
    /// The result is stored before this returns. An attempt that comes after that gets it without running the step again;
    /// so does whoever asks for the same step once more, or at the same time, in this attempt. A step that fails leaves
    /// nothing behind: the next attempt runs it again.
    ///
    /// ```no_run
    /// # use awa_worker::{JobContext, JobError};
    /// # async fn book(card: u64) -> Result<String, std::io::Error> { Ok(format!("{card}")) }
    /// # async fn send(receipt: &str) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn handler(card: u64, context: JobContext) -> Result<(), JobError> {
    /// let receipt: String = context.step("book", async || book(card).await).await?;
    /// context.step("send", async || send(&receipt).await).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Guarantees
    /// Once this has returned `Ok`, no later attempt runs the step. Until then it may run again: a process that dies while
    /// the step runs, or after it and before its result is stored, leaves no trace of it. So an effect outside of this
    /// database should carry a name that makes its repetition harmless, for example job id and step. An effect inside of it
    /// is better done with [`complete_in`](Self::complete_in).
    ///
    /// # Limits
    /// Names have 1 to 128 bytes. Results are part of the progress, under the entry `$steps` of its metadata: they share its
    /// limit, 64 KiB unless configured otherwise, and go with it when the job completes. Keep there where a result is, rather
    /// than the result, if it is large. The result is returned as it reads back from JSON, by the first attempt too, so that
    /// a type for which that makes a difference is noticed.
    ///
    /// # Errors
    /// The step's own error. [`StepError`], which fails the job for good. [`Error::LeaseLost`](crate::Error::LeaseLost) when
    /// this attempt is over, and the step does not run if that is known before: stop then, another may be running. [`Error::Storage`](crate::Error::Storage) when the database
    /// could not be asked; the result is kept then and stored with the end of the attempt.
    pub async fn step<T, E, Run, Running>(&self, name: &str, run: Run) -> Result<T, JobError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<JobError>,
        Run: FnOnce() -> Running,
        Running: Future<Output = Result<T, E>>,
    {
        check_step_name(name).map_err(|invalid| JobError::fatal(StepError::Name(invalid)))?;
        let buffer = self.attempt.progress();
        let mut turn = buffer.steps().turn(name).await;
        if buffer.read(|progress| progress.step(name).is_none()) {
            // Its effect would come beside that of the attempt that goes on.
            if self.attempt.is_answered() {
                return Err(Error::LeaseLost.into());
            }
            let result = run().await.map_err(Into::into)?;
            let unkept = |source| JobError::fatal(StepError::Unkept { step: name.to_owned(), source });
            let change = MetadataChange::step(name, &result, buffer.bytes_max()).map_err(unkept)?;
            turn.took(buffer.apply(change).map_err(unkept)?);
        }
        if let Some(generation) = turn.generation() {
            self.flush(buffer, generation).await?;
        }
        let kept = buffer.read(|progress| progress.step(name).cloned()).unwrap_or(Value::Null);
        let unreadable = |source| JobError::fatal(StepError::Unreadable { step: name.to_owned(), source });
        serde_json::from_value(kept).map_err(unreadable)
    }
}
