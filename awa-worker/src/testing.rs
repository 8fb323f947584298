//! Tests of services that enqueue and run jobs. Behind the feature `testing`.
//!
//! | To test | use |
//! |---|---|
//! | one handler, without a database | [`run`] |
//! | that something was enqueued | [`assert_enqueued!`](crate::assert_enqueued), [`enqueued`] |
//! | what follows when the jobs of a queue run | [`drain`], [`drain_in`], [`Drain`] |
//! | retries, schedules, deadlines | [`advance`] |
//! | crashes and lost leases | [`Faults`] |
//!
//! Handlers run through the executor that workers use: args are decoded from JSON, panics and timeouts become failed
//! attempts, outcomes are decided by the same code. [`drain`] claims and settles with the statements of a worker. Nothing
//! here sleeps.
//!
//! ```
//! use awa_worker::{Data, JobArgs, JobContext, JobError, testing};
//!
//! #[derive(serde::Serialize, serde::Deserialize, JobArgs)]
//! #[job(kind = "count_words", output = usize)]
//! struct CountWords {
//!     text: String,
//! }
//!
//! async fn count_words(job: CountWords, context: JobContext, least: Data<usize>) -> Result<usize, JobError> {
//!     context.progress().set(50, "counting")?;
//!     let words = job.text.split_whitespace().count();
//!     if words < *least { Err(JobError::fatal("too short")) } else { Ok(words) }
//! }
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let job = CountWords { text: "a few words".to_owned() };
//! let ran = testing::run(count_words, &job).data(2_usize).attempt(3).await;
//! assert_eq!(ran.output(), Some(&3));
//! assert_eq!(ran.progress.percent(), Some(50));
//! let ran = testing::run(count_words, &job).data(9_usize).await;
//! assert_eq!(ran.error(), Some("too short"));
//! # });
//! ```

mod drain;
mod enqueued;
mod faults;
mod left;
mod lent;
mod rehearsal;
mod stores;
mod time;

pub use self::drain::{ATTEMPTS_MAX, Drain, Drained, DrainedAttempt, drain, drain_in};
pub use self::enqueued::{Enqueued, enqueued};
pub use self::faults::Faults;
pub use self::left::{LeftBecause, LeftJob};
pub use self::rehearsal::{Ended, Ran, TestRun, run};
pub use self::time::{Advanced, advance};

/// What the macros of this module call. No part of the public interface.
#[doc(hidden)]
pub mod __private {
    pub use super::enqueued::{assert_count, assert_some, same};
}
