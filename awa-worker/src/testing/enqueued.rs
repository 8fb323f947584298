//! Whether something was enqueued.

use std::fmt::Write as _;

use awa_model::{JobArgs, JobId, JobState};
use awa_storage::testing::{WaitingJob, waiting};
use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::PgExecutor;

use crate::failure::Error;

/// Jobs that a failed assertion lists.
const LISTED_MAX: usize = 20;

/// A job that waits to be run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Enqueued<A> {
    /// Its id.
    pub id: JobId<A>,
    /// Its args.
    pub args: A,
    /// Where it queues.
    pub queue: String,
    /// Available, scheduled or retryable.
    pub state: JobState,
    /// How urgent it is.
    pub priority: i16,
    /// When it is due.
    pub run_at: DateTime<Utc>,
    /// Labels.
    pub tags: Vec<String>,
    /// The producer's own.
    pub metadata: Option<Value>,
}

/// The jobs with args `A` that wait to be run, those that were enqueued first in front; from a pool, or from `&mut *tx`
/// those that this transaction sees. Jobs that run or have ended are not among them.
///
/// # Errors
/// [`Error::Storage`] if the database does not answer.
///
/// # Panics
/// If the args of one do not read as an `A`.
pub async fn enqueued<A: JobArgs>(db: impl PgExecutor<'_>) -> Result<Vec<Enqueued<A>>, Error> {
    Ok(read(&waiting(db).await?))
}

fn read<A: JobArgs>(jobs: &[WaitingJob]) -> Vec<Enqueued<A>> {
    let of_kind = jobs.iter().filter(|job| job.kind == A::KIND);
    let args = |job: &WaitingJob| {
        let args = serde_json::from_value(job.args.clone());
        args.unwrap_or_else(|error| panic!("the args of job {} do not fit {}: {error}", job.id, A::KIND))
    };
    let one = |job: &WaitingJob| Enqueued {
        id: job.id.assume(),
        args: args(job),
        queue: job.queue.clone(),
        state: job.state,
        priority: job.priority,
        run_at: job.run_at,
        tags: job.tags.clone(),
        metadata: job.metadata.clone(),
    };
    of_kind.map(one).collect()
}

/// Whether two args are the same once they are written as JSON.
pub fn same<A: JobArgs>(one: &A, other: &A) -> bool {
    let json = |args: &A| serde_json::to_value(args).unwrap_or_else(|error| panic!("args that do not encode: {error}"));
    json(one) == json(other)
}

/// At least one job matches, if `wanted`; none does, if not.
///
/// # Panics
/// If it is not so, or the database does not answer.
#[track_caller]
pub fn assert_some<'a, A: JobArgs>(
    db: impl PgExecutor<'a>,
    wanted: bool,
    matches: impl Fn(&A) -> bool,
    what: &'static str,
) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let jobs = look(waiting(db).await);
        let found = read::<A>(&jobs).iter().filter(|job| matches(&job.args)).count();
        let not = if wanted { "no" } else { "a" };
        let kind = A::KIND;
        assert!((found > 0) == wanted, "{place}: {not} {kind} job with {what} waits to be run\n{}", list(&jobs));
    }
}

/// Exactly so many jobs of the kind are there.
///
/// # Panics
/// If it is not so, or the database does not answer.
#[track_caller]
pub fn assert_count<'a, A: JobArgs>(db: impl PgExecutor<'a>, count: usize) -> impl Future<Output = ()> {
    let place = std::panic::Location::caller();
    async move {
        let jobs = look(waiting(db).await);
        let found = jobs.iter().filter(|job| job.kind == A::KIND).count();
        let kind = A::KIND;
        assert!(found == count, "{place}: {found} {kind} jobs wait to be run, {count} expected\n{}", list(&jobs));
    }
}

fn look(jobs: Result<Vec<WaitingJob>, awa_storage::Error>) -> Vec<WaitingJob> {
    jobs.unwrap_or_else(|error| panic!("the jobs cannot be looked at: {error}"))
}

/// What is there, for the message of an assertion.
fn list(jobs: &[WaitingJob]) -> String {
    let mut text = match jobs.len() {
        0 => "nothing waits".to_owned(),
        1 => "one job waits:".to_owned(),
        many => format!("{many} jobs wait:"),
    };
    for job in jobs.iter().take(LISTED_MAX) {
        // Writing to a String does not fail.
        let _ = write!(text, "\n  {} {} on {} ({}): {}", job.id, job.kind, job.queue, job.state, job.args);
    }
    if jobs.len() > LISTED_MAX {
        text.push_str("\n  …");
    }
    text
}

/// Asserts that a job waits to be run, and lists what does if it is not so. To be used where `await` is allowed.
///
/// | Form | Holds if |
/// |---|---|
/// | `assert_enqueued!(&pool, ResizeImage { … })` | a job with these args is there |
/// | `assert_enqueued!(&pool, ResizeImage, \|job\| job.width > 10)` | one of that kind is there that matches |
/// | `assert_enqueued!(&pool, ResizeImage, count = 3)` | so many of that kind are there |
/// | `assert_enqueued!(&pool, ResizeImage)` | one of that kind is there, whatever its args |
///
/// A name alone is a type: args in a variable go in parentheses, `assert_enqueued!(&pool, (wanted))`.
///
/// The first argument may also be `&mut *tx`, for what only a transaction sees. For anything else, ask
/// [`enqueued`](crate::testing::enqueued).
#[macro_export]
macro_rules! assert_enqueued {
    ($db:expr, $($args:ident)::+, count = $count:expr $(,)?) => {
        $crate::testing::__private::assert_count::<$($args)::+>($db, $count).await
    };
    ($db:expr, $($args:ident)::+, |$job:pat_param| $matches:expr $(,)?) => {
        $crate::testing::__private::assert_some::<$($args)::+>($db, true, |$job| $matches, stringify!($matches)).await
    };
    ($db:expr, $($args:ident)::+ $(,)?) => {
        $crate::testing::__private::assert_some::<$($args)::+>($db, true, |_| true, "any args").await
    };
    ($db:expr, $args:expr $(,)?) => {{
        #[allow(unused_parens, reason = "a name alone would be a type")]
        let wanted = $args;
        let like = |job: &_| $crate::testing::__private::same(job, &wanted);
        $crate::testing::__private::assert_some($db, true, like, stringify!($args)).await
    }};
}

/// Asserts that no such job waits to be run, and lists what does if it is not so. To be used where `await` is allowed.
///
/// | Form | Holds if |
/// |---|---|
/// | `assert_not_enqueued!(&pool, ResizeImage { … })` | no job with these args is there |
/// | `assert_not_enqueued!(&pool, ResizeImage, \|job\| job.width > 10)` | none of that kind is there that matches |
/// | `assert_not_enqueued!(&pool, ResizeImage)` | none of that kind is there |
///
/// A name alone is a type: args in a variable go in parentheses, `assert_not_enqueued!(&pool, (unwanted))`.
#[macro_export]
macro_rules! assert_not_enqueued {
    ($db:expr, $($args:ident)::+, |$job:pat_param| $matches:expr $(,)?) => {
        $crate::testing::__private::assert_some::<$($args)::+>($db, false, |$job| $matches, stringify!($matches)).await
    };
    ($db:expr, $($args:ident)::+ $(,)?) => {
        $crate::testing::__private::assert_some::<$($args)::+>($db, false, |_| true, "any args").await
    };
    ($db:expr, $args:expr $(,)?) => {{
        #[allow(unused_parens, reason = "a name alone would be a type")]
        let unwanted = $args;
        let like = |job: &_| $crate::testing::__private::same(job, &unwanted);
        $crate::testing::__private::assert_some($db, false, like, stringify!($args)).await
    }};
}
