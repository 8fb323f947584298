//! What operators do, through the client's pool: each call is one statement in a transaction of its own.

use awa_model::{InvalidJob, JobEdit, JobId, QueueName};
use awa_storage::admin::fleet::{self, Status};
use awa_storage::admin::why::Why;
use awa_storage::admin::{self, JobStatus, Operated};
use awa_storage::queue;

use crate::client::Client;
use crate::failure::Error;

/// Operators' calls. The [`Operated`] that most of them answer says whether the wish was granted, and why not.
impl Client {
    /// Calls a job off. A handler that runs is told within milliseconds, without LISTEN at its next heartbeat, and whatever it
    /// still returns is ignored.
    /// `reason` is noted among the errors of the job. Refused for a job that has completed or failed.
    ///
    /// # Errors
    /// [`Error::Storage`] if the database does not answer. Safe to repeat.
    pub async fn cancel<A>(&self, job: JobId<A>, reason: Option<&str>) -> Result<Operated, Error> {
        Ok(admin::cancel(self.pool(), job.untyped(), reason).await?)
    }

    /// Calls many jobs off. Answers one entry for each id, in the order given; no ids are nobody, never everybody.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn cancel_many(&self, jobs: &[JobId], reason: Option<&str>) -> Result<Vec<(JobId, Operated)>, Error> {
        Ok(admin::cancel_many(self.pool(), jobs, reason).await?)
    }

    /// Gives a failed or cancelled job another life: available now, with all its attempts. Errors and progress stay.
    /// [`Operated::Duplicate`] names the newer job that has its unique key.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn retry<A>(&self, job: JobId<A>) -> Result<Operated, Error> {
        Ok(admin::retry(self.pool(), job.untyped()).await?)
    }

    /// Gives many jobs another life. Answers one entry for each id, in the order given.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn retry_many(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Operated)>, Error> {
        Ok(admin::retry_many(self.pool(), jobs).await?)
    }

    /// Does not wait for the time of a scheduled or retryable job: it is available now.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn run_now<A>(&self, job: JobId<A>) -> Result<Operated, Error> {
        Ok(admin::run_now(self.pool(), job.untyped()).await?)
    }

    /// Does not wait for the time of many jobs. Answers one entry for each id, in the order given.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn run_now_many(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Operated)>, Error> {
        Ok(admin::run_now_many(self.pool(), jobs).await?)
    }

    /// Changes a job: `client.edit(id, JobEdit::new().priority(1))`. What is not named stays as it is.
    ///
    /// # Errors
    /// [`Error::InvalidJob`] for a value that a job cannot have; otherwise as [`Client::cancel`].
    pub async fn edit<A>(&self, job: JobId<A>, edit: JobEdit) -> Result<Operated, Error> {
        match admin::edit(self.pool(), job.untyped(), edit).await {
            Err(awa_storage::Error::InvalidJob(invalid)) => Err(invalid.into()),
            answer => Ok(answer?),
        }
    }

    /// Removes a job for good, in whatever state, and frees its unique key. A handler that runs is told as by [`Client::cancel`].
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn delete_job<A>(&self, job: JobId<A>) -> Result<Operated, Error> {
        Ok(admin::delete(self.pool(), job.untyped()).await?)
    }

    /// Removes many jobs. Answers one entry for each id, in the order given; no ids are nobody, never everybody.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn delete_jobs(&self, jobs: &[JobId]) -> Result<Vec<(JobId, Operated)>, Error> {
        Ok(admin::delete_many(self.pool(), jobs).await?)
    }

    /// What became of a job; `None` where there is none, or none any more.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn job_status<A>(&self, job: JobId<A>) -> Result<Option<JobStatus>, Error> {
        Ok(admin::status(self.pool(), job.untyped()).await?)
    }

    /// Why is this job not running? All that holds, the most decisive first; `None` where there is no such job, or none any
    /// more. Reads a bounded number of rows, whatever waits. Workers and attempts that have been silent for this client's
    /// [`stale_after`](crate::ClientBuilder::stale_after) are taken for dead.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn why<A>(&self, job: JobId<A>) -> Result<Option<Why>, Error> {
        Ok(admin::why::why(self.pool(), job.untyped(), self.stale_after()).await?)
    }

    /// How is the fleet doing? The leader, the workers, the ring, each queue, and what is at fault or holds something up: one
    /// statement that reads a bounded number of rows, whatever waits. Workers that have been silent for this client's
    /// [`stale_after`](crate::ClientBuilder::stale_after) are taken for dead.
    ///
    /// # Errors
    /// As [`Client::cancel`].
    pub async fn status(&self) -> Result<Status, Error> {
        Ok(fleet::status(self.pool(), self.stale_after()).await?)
    }

    /// Pauses a queue, which need not have been used yet: no worker claims from it until [`Client::resume_queue`], whatever
    /// restarts in between. Answers whether that changed anything.
    ///
    /// # Errors
    /// [`Error::InvalidJob`] for a text that names no queue; otherwise as [`Client::cancel`].
    pub async fn pause_queue(&self, name: impl Into<String>) -> Result<bool, Error> {
        Ok(queue::pause(self.pool(), &named(name)?).await?)
    }

    /// Lets a paused queue go on; workers that sleep are woken. Answers whether it was paused.
    ///
    /// # Errors
    /// As [`Client::pause_queue`].
    pub async fn resume_queue(&self, name: impl Into<String>) -> Result<bool, Error> {
        Ok(queue::resume(self.pool(), &named(name)?).await?)
    }
}

fn named(name: impl Into<String>) -> Result<QueueName, Error> {
    Ok(QueueName::new(name.into()).map_err(InvalidJob::from)?)
}
