//! Moving time in a test: not the clock moves, but everything that is stored gets older.

use std::time::Duration;

use sqlx::PgExecutor;

use crate::Error;

/// Makes everything stored about jobs and workers older by this much: due times, signs of life, deadlines, callbacks,
/// ends.
///
/// # Errors
/// If the database does not answer, or a time would leave the calendar.
pub async fn age(db: impl PgExecutor<'_>, by: Duration) -> Result<(), Error> {
    sqlx::query(
        "with span as (select make_interval(secs => $1) as span),
              deferred as (
                  update awa.scheduled_jobs as job
                     set run_at = run_at - span, created_at = created_at - span, attempted_at = attempted_at - span
                    from span),
              hot as (
                  update awa.jobs_hot as job
                     set run_at = run_at - span, created_at = created_at - span, attempted_at = attempted_at - span,
                         heartbeat_at = heartbeat_at - span, deadline_at = deadline_at - span,
                         finalized_at = finalized_at - span
                    from span),
              claimed as (
                  update awa.active_claims as claim
                     set claimed_at = claimed_at - span, deadline_at = deadline_at - span
                    from span),
              waited as (
                  update awa.callbacks as callback
                     set created_at = created_at - span, due_at = due_at - span, answered_at = answered_at - span
                    from span)
         update awa.workers as worker
            set last_seen_at = last_seen_at - span
           from span",
    )
    .bind(by.as_secs_f64())
    .execute(db)
    .await?;
    Ok(())
}
