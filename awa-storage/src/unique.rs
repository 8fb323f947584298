//! Finding the job that holds a unique key, and how a uniqueness rule travels: as the parameters that `awa.unique_key` and the
//! enqueue functions take.
//!
//! The key itself is computed by the database alone, so that producers in different languages cannot disagree; a claim row
//! for it exists exactly while its job is in one of the rule's states, which triggers keep on every path.

use awa_model::{JobId, PreparedJob, Unique, UniqueArgs};
use serde_json::{Value, json};
use sqlx::PgExecutor;

use crate::{
    Error,
    admin::{Answer, Operated},
    enqueue::due_parameters,
};

/// The job that holds the unique key of such a job; by the default rule if it has none. May be outdated when it arrives.
///
/// # Errors
/// If the database does not answer.
pub async fn find(db: impl PgExecutor<'_>, job: &PreparedJob) -> Result<Option<JobId>, Error> {
    let (run_at, delay_seconds) = due_parameters(job.due);
    let holder = sqlx::query_file_scalar!(
        "queries/unique/find.sql",
        job.kind.as_str(),
        job.args,
        job.queue.as_str(),
        rule(job),
        run_at,
        delay_seconds,
    )
    .fetch_one(db)
    .await;
    Ok(holder.map_err(Error::of_enqueue)?.map(JobId::new))
}

/// Calls off whichever job holds the unique key of such a job. `None` where nobody does; else its id and what
/// [`cancel`](crate::admin::cancel) says of it.
///
/// # Errors
/// If the database does not answer. Safe to repeat.
pub async fn cancel(
    db: impl PgExecutor<'_>,
    job: &PreparedJob,
    reason: Option<&str>,
) -> Result<Option<(JobId, Operated)>, Error> {
    let (run_at, delay_seconds) = due_parameters(job.due);
    let answer = sqlx::query_file_as!(
        Answer,
        "queries/unique/cancel.sql",
        job.kind.as_str(),
        job.args,
        job.queue.as_str(),
        rule(job),
        run_at,
        delay_seconds,
        reason,
    )
    .fetch_one(db)
    .await
    .map_err(Error::of_enqueue)?;
    if answer.job_id.is_none() { Ok(None) } else { answer.read().map(Some) }
}

/// The rule as the functions for every language take it.
fn rule(job: &PreparedJob) -> Value {
    let rule = job.unique.clone().unwrap_or_default();
    let args = match rule.args {
        UniqueArgs::All => json!(true),
        UniqueArgs::Ignore => json!(false),
        UniqueArgs::Fields(fields) => json!(fields),
    };
    let mut options = json!({ "args": args, "queue": rule.queue });
    if let Some(period) = rule.period {
        options["period"] = json!(period.as_secs_f64());
    }
    options
}

/// The parameters of one rule. All are null or without effect for a job that is not unique.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct UniqueParameters<'a> {
    /// Bits of the states in which the key is held; `None` makes the job not unique.
    pub(crate) states: Option<i16>,
    pub(crate) by_queue: bool,
    pub(crate) by_args: bool,
    pub(crate) fields: Option<&'a [String]>,
    pub(crate) period_seconds: Option<f64>,
}

impl<'a> UniqueParameters<'a> {
    pub(crate) fn of(unique: Option<&'a Unique>) -> Self {
        let Some(unique) = unique else {
            return Self::default();
        };
        Self {
            states: Some(unique.states.bits()),
            by_queue: unique.queue,
            by_args: unique.args == UniqueArgs::All,
            fields: match &unique.args {
                UniqueArgs::Fields(fields) => Some(fields),
                UniqueArgs::Ignore | UniqueArgs::All => None,
            },
            period_seconds: unique.period.map(|period| period.as_secs_f64()),
        }
    }
}
