//! Who does a duty that one process should do at a time.
//!
//! Leadership is an optimisation: whatever a leader does is correct with two of them (I10). A term is to a leader what a
//! run_lease is to an attempt: every write matches holder and term, so a former leader changes nothing. The database's clock
//! decides when a term is over.

use std::time::Duration;

use awa_model::WorkerId;
use sqlx::PgPool;

pub use self::report::{DutyReport, PassReport, WalkReport};
use crate::{Error, Guarded};

mod report;

/// Proof that the holder was elected. Made only by [`acquire`]; over when it expires, is lost, or is given up.
#[derive(Debug)]
#[must_use = "a term that nobody renews or resigns blocks the duty until it expires"]
pub struct Term {
    duty: &'static str,
    holder: WorkerId,
    number: i64,
}

impl Term {
    /// Counts the terms of the duty; every election raises it.
    pub fn number(&self) -> i64 {
        self.number
    }
}

/// Takes the duty for `lasts`, unless somebody holds it. The holder must be fresh for every process.
///
/// Asking in vain takes no transaction id.
///
/// # Errors
///
/// If the database does not answer; the duty may have been taken then, and is free again when the term expires.
pub async fn acquire(
    pool: &PgPool,
    duty: &'static str,
    holder: WorkerId,
    lasts: Duration,
) -> Result<Option<Term>, Error> {
    let row = sqlx::query_file!("queries/leader/acquire.sql", duty, holder.get(), lasts.as_secs_f64())
        .fetch_one(pool)
        .await?;
    Ok(row.term.map(|number| Term { duty, holder, number }))
}

/// Makes the term last for `lasts` from now. Lost when it is over already, even if nobody has taken the duty since.
///
/// # Errors
///
/// If the database does not answer; the term may have been renewed or not.
pub async fn renew(pool: &PgPool, term: &Term, lasts: Duration) -> Result<Guarded<()>, Error> {
    let row =
        sqlx::query_file!("queries/leader/renew.sql", term.duty, term.holder.get(), term.number, lasts.as_secs_f64())
            .fetch_one(pool)
            .await?;
    Ok(guarded(row.renewed))
}

/// As [`renew`], and tells with it what the duties did, in one transaction. A term that is over tells nothing.
///
/// # Errors
///
/// As [`renew`]; also if the report cannot be written, since somebody has its rows locked or for any other reason. Then the term
/// was not renewed, and [`renew`] may do it.
pub async fn renew_and_report(
    pool: &PgPool,
    term: &Term,
    lasts: Duration,
    reports: &[DutyReport],
) -> Result<Guarded<()>, Error> {
    let row = sqlx::query_file!(
        "queries/leader/renew_and_report.sql",
        term.duty,
        term.holder.get(),
        term.number,
        lasts.as_secs_f64(),
        report::json(reports)
    )
    .fetch_one(pool)
    .await?;
    Ok(guarded(row.renewed))
}

/// Tells what the duties did in a process that was not elected.
///
/// # Errors
///
/// If the database does not answer, or somebody has the rows locked.
pub async fn report(pool: &PgPool, holder: WorkerId, reports: &[DutyReport]) -> Result<(), Error> {
    sqlx::query_file!("queries/leader/report.sql", holder.get(), report::json(reports)).fetch_one(pool).await?;
    Ok(())
}

/// Gives the duty up, so that another process need not wait for the term to expire.
///
/// # Errors
///
/// If the database does not answer; then the term expires by itself.
pub async fn resign(pool: &PgPool, term: Term) -> Result<Guarded<()>, Error> {
    let row = sqlx::query_file!("queries/leader/resign.sql", term.duty, term.holder.get(), term.number)
        .fetch_one(pool)
        .await?;
    Ok(guarded(row.resigned))
}

fn guarded(applied: bool) -> Guarded<()> {
    if applied { Guarded::Applied(()) } else { Guarded::Lost }
}
