//! Jobs that are there before a run: far in the future, completed, or due while it goes on. Written to the tables
//! directly, since millions of them would take too long any other way.

use sqlx::AssertSqlSafe;

use crate::{Result, database::Scratch, jobs};

/// Args about as long as those of the jobs that run.
const ARGS: &str = "jsonb_build_object('number', number, 'account', number % 1000000, 'address',
    'someone.' || number % 10000 || '@example.com', 'template', 'order_confirmation', 'trace', md5(number::text), 'retries', false)";

/// The lane of a job: as `Jobs` deals them.
const PRIORITY: &str = "(case number % 10 when 0 then 1 when 1 then 2 when 2 then 3 else 4 end)::smallint";

/// Segments that completed jobs are spread over, as a ring that has been rotating would have them.
const SEGMENTS: u64 = 5;

/// Rows that one statement inserts.
const CHUNK: u64 = 250_000;

/// Puts `scheduled` jobs into the next thirty days, beginning in an hour, and `completed` ones into the last four hours; the
/// ring has rotated past them, and marks say that nothing waits there.
pub(crate) async fn fill(scratch: &Scratch, scheduled: u64, completed: u64) -> Result {
    let pool = scratch.pool(1);
    for first in (0..scheduled).step_by(usize::try_from(CHUNK)?) {
        let last = scheduled.min(first + CHUNK) - 1;
        let statement = format!(
            "insert into awa.scheduled_jobs (run_at, priority, kind, queue, args)
             select now() + interval '1 hour' + number % 2592000 * interval '1 second', {PRIORITY}, '{kind}', '{queue}', {ARGS}
               from generate_series({first}, {last}) as number",
            kind = jobs::KIND,
            queue = jobs::QUEUE,
        );
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&pool).await?;
    }
    for first in (0..completed).step_by(usize::try_from(CHUNK)?) {
        let (last, segment) = (completed.min(first + CHUNK) - 1, first * SEGMENTS / completed);
        let statement = format!(
            "insert into awa.jobs_hot_{segment} (created_at, run_at, attempted_at, finalized_at, attempt, run_lease, state,
                                                 priority, kind, queue, args)
             select now() - interval '4 hours', now() - interval '4 hours', now(), now(), 1, 1, 'completed',
                    {PRIORITY}, '{kind}', '{queue}', {ARGS}
               from generate_series({first}, {last}) as number",
            kind = jobs::KIND,
            queue = jobs::QUEUE,
        );
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&pool).await?;
    }
    sqlx::raw_sql(AssertSqlSafe(format!(
        "update awa.ring set current = {SEGMENTS}, closed_at = opened_at;
         insert into awa.lane_marks (queue, priority, seq)
         select '{}', priority, (select last_value from awa.job_seq) from generate_series(1, 4) as priority",
        jobs::QUEUE
    )))
    .execute(&pool)
    .await?;
    // What autovacuum would do in the middle of a run. Not the ring: nobody vacuums that.
    sqlx::raw_sql("vacuum (analyze) awa.scheduled_jobs").execute(&pool).await?;
    pool.close().await;
    Ok(())
}

/// Lets jobs become due from now on, so many a second for so many seconds.
pub(crate) async fn due(scratch: &Scratch, per_second: u32, seconds: u32) -> Result {
    let pool = scratch.pool(1);
    let statement = format!(
        "insert into awa.scheduled_jobs (run_at, priority, kind, queue, args)
         select now() + interval '1 second' + number * interval '1 second' / {per_second}, {PRIORITY}, 'deferred', '{queue}',
                jsonb_build_object('number', number)
           from generate_series(1, {per_second} * {seconds}) as number",
        queue = jobs::QUEUE,
    );
    sqlx::raw_sql(AssertSqlSafe(statement)).execute(&pool).await?;
    pool.close().await;
    Ok(())
}
