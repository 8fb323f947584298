//! Putting jobs in: one, many in one statement, or very many by COPY, on whatever connection or transaction the caller has.
//!
//! One and many are one statement each, so a job exists if and only if the caller's transaction commits, and a dropped future
//! leaves nothing half done. Due jobs go into the ring, others wait in `scheduled_jobs`; the clock of the database decides.
//! A sleeping worker is notified when the transaction commits; while workers are awake and busy nothing is sent.
//!
//! # What may wait, and what may fail
//! A unique job waits for an open transaction that has enqueued, or is finishing, a job with the same key; so do not leave
//! such a transaction open. One call takes its keys in one order, so that calls cannot deadlock; several calls in one
//! transaction can, and then one of them fails with a [transient](Error::is_transient) error. In a transaction at
//! REPEATABLE READ or above, a job whose key was taken since the transaction began fails with SQLSTATE 40001 instead of an
//! answer, as any statement may there.

mod copy;

use awa_model::{Due, Inserted, JobId, OnConflict, PreparedJob};
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgExecutor;

pub use self::copy::enqueue_copy;
use crate::{Error, unique::UniqueParameters};

/// Enqueues one job.
///
/// If its unique key is held, its rule decides: [`Inserted::Duplicate`] or [`Inserted::Replaced`], with the id of the job that
/// holds it, or [`Error::Duplicate`].
///
/// # Errors
/// Whatever the database answers; nothing was written then. See the [module](self) for what unique jobs may meet.
pub async fn enqueue(db: impl PgExecutor<'_>, job: &PreparedJob) -> Result<Inserted, Error> {
    if job.unique.as_ref().is_some_and(|unique| unique.on_conflict != OnConflict::Skip) {
        let answers = enqueue_many(db, std::slice::from_ref(job)).await?;
        return answers.into_iter().next().ok_or(Error::Database(sqlx::Error::RowNotFound));
    }
    let (run_at, delay_seconds) = due_parameters(job.due);
    let unique = UniqueParameters::of(job.unique.as_ref());
    let outcome = sqlx::query_file_scalar!(
        "queries/enqueue/one.sql",
        job.kind.as_str(),
        job.queue.as_str(),
        job.priority.get(),
        job.args,
        run_at,
        delay_seconds,
        job.max_attempts,
        job.timeout.map(|timeout| timeout.as_secs_f64()),
        (!job.tags.is_empty()).then_some(job.tags.as_slice()),
        job.metadata.as_ref(),
        job.trace_context.as_deref(),
        unique.states,
        unique.by_queue,
        unique.by_args,
        unique.fields,
        unique.period_seconds,
    )
    .fetch_one(db)
    .await
    .map_err(Error::of_enqueue)?;
    Ok(inserted(outcome))
}

/// Enqueues many jobs in one statement. Answers one [`Inserted`] a job, in the order given.
///
/// All or none: an error means that nothing was written. Of two jobs with the same unique key the first is added; the second
/// is its duplicate, hands it its args and due time, or fails all, as its rule says. No jobs, no statement.
///
/// # Errors
/// As [`enqueue`].
pub async fn enqueue_many(db: impl PgExecutor<'_>, jobs: &[PreparedJob]) -> Result<Vec<Inserted>, Error> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(jobs);
    let outcomes = sqlx::query_file!(
        "queries/enqueue/many.sql",
        &columns.kinds as &[&str],
        &columns.queues as &[&str],
        &columns.priorities,
        &columns.args as &[&str],
        &columns.run_ats as &[Option<DateTime<Utc>>],
        &columns.delays as &[Option<f64>],
        &columns.max_attempts,
        &columns.timeouts as &[Option<f64>],
        &columns.tags as &[Option<Value>],
        &columns.metadata as &[Option<&Value>],
        &columns.trace_contexts as &[Option<&str>],
        &columns.unique_states as &[Option<i16>],
        &columns.unique_by_queue,
        &columns.unique_by_args,
        &columns.unique_fields as &[Option<Value>],
        &columns.unique_periods as &[Option<f64>],
        &columns.on_conflicts as &[&str],
    )
    .fetch_all(db)
    .await
    .map_err(Error::of_enqueue)?;
    debug_assert_eq!(outcomes.len(), jobs.len(), "one answer a job");
    outcomes.into_iter().map(|answer| outcome(answer.job_id, answer.outcome)).collect()
}

fn outcome(id: i64, outcome: String) -> Result<Inserted, Error> {
    let id = JobId::new(id);
    match outcome.as_str() {
        "inserted" => Ok(Inserted::New(id)),
        "duplicate" => Ok(Inserted::Duplicate(id)),
        "replaced" => Ok(Inserted::Replaced(id)),
        _ => Err(Error::Unreadable { relation: "awa.enqueue_batch", column: "outcome", value: outcome }),
    }
}

/// The function answers the id of the holder with its sign turned: one number a job is the cheapest answer there is.
fn inserted(outcome: i64) -> Inserted {
    if outcome < 0 { Inserted::Duplicate(JobId::new(-outcome)) } else { Inserted::New(JobId::new(outcome)) }
}

pub(crate) fn due_parameters(due: Due) -> (Option<DateTime<Utc>>, Option<f64>) {
    match due {
        Due::Now => (None, None),
        Due::At(time) => (Some(time), None),
        Due::In(delay) => (None, Some(delay.as_secs_f64())),
    }
}

/// The jobs of a batch, column by column. A column that no job uses is empty, which the function reads as nulls.
#[derive(Default)]
struct Columns<'a> {
    kinds: Vec<&'a str>,
    queues: Vec<&'a str>,
    priorities: Vec<i16>,
    args: Vec<&'a str>,
    run_ats: Vec<Option<DateTime<Utc>>>,
    delays: Vec<Option<f64>>,
    max_attempts: Vec<i16>,
    timeouts: Vec<Option<f64>>,
    tags: Vec<Option<Value>>,
    metadata: Vec<Option<&'a Value>>,
    trace_contexts: Vec<Option<&'a str>>,
    unique_states: Vec<Option<i16>>,
    unique_by_queue: Vec<bool>,
    unique_by_args: Vec<bool>,
    unique_fields: Vec<Option<Value>>,
    unique_periods: Vec<Option<f64>>,
    /// Empty where all of them skip.
    on_conflicts: Vec<&'static str>,
}

impl<'a> Columns<'a> {
    fn of(jobs: &'a [PreparedJob]) -> Self {
        let mut columns = Self {
            kinds: jobs.iter().map(|job| job.kind.as_str()).collect(),
            queues: jobs.iter().map(|job| job.queue.as_str()).collect(),
            priorities: jobs.iter().map(|job| job.priority.get()).collect(),
            args: jobs.iter().map(|job| job.args.as_str()).collect(),
            max_attempts: jobs.iter().map(|job| job.max_attempts).collect(),
            run_ats: sparse(jobs, |job| due_parameters(job.due).0),
            delays: sparse(jobs, |job| due_parameters(job.due).1),
            timeouts: sparse(jobs, |job| job.timeout.map(|timeout| timeout.as_secs_f64())),
            tags: sparse(jobs, |job| (!job.tags.is_empty()).then(|| json!(job.tags))),
            metadata: sparse(jobs, |job| job.metadata.as_ref()),
            trace_contexts: sparse(jobs, |job| job.trace_context.as_deref()),
            ..Self::default()
        };
        if jobs.iter().any(|job| job.unique.is_some()) {
            columns.add_unique(jobs);
        }
        columns
    }

    fn add_unique(&mut self, jobs: &[PreparedJob]) {
        for job in jobs {
            let unique = UniqueParameters::of(job.unique.as_ref());
            self.unique_states.push(unique.states);
            self.unique_by_queue.push(unique.by_queue);
            self.unique_by_args.push(unique.by_args);
            self.unique_fields.push(unique.fields.map(|fields| json!(fields)));
            self.unique_periods.push(unique.period_seconds);
        }
        let policies = jobs.iter().map(|job| job.unique.as_ref().map_or(OnConflict::Skip, |unique| unique.on_conflict));
        if policies.clone().any(|policy| policy != OnConflict::Skip) {
            self.on_conflicts = policies.map(OnConflict::as_str).collect();
        }
    }
}

/// One value a job; nothing at all if no job has one.
fn sparse<'a, T>(jobs: &'a [PreparedJob], value: impl Fn(&'a PreparedJob) -> Option<T>) -> Vec<Option<T>> {
    let values: Vec<_> = jobs.iter().map(value).collect();
    if values.iter().any(Option::is_some) { values } else { Vec::new() }
}
