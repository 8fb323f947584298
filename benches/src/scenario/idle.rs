//! What a worker process costs that has nothing to do, and one that leads: statements, transaction ids and CPU time a second.

use std::time::Duration;

use awa_worker::{CancellationToken, Client, JobError};
use sqlx::PgPool;
use tokio::time;

use crate::{Bench, Result, database::Scratch, jobs::Noop, meter::Meter, report::Report, runtime, statements};

/// Long enough for the worker to start, to find nothing, and to fall asleep.
const SETTLING: Duration = Duration::from_secs(5);

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each of the two is watched.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) seconds: u32,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new("idle", &pool).await?;
    pool.close().await;
    scratch.drop().await?;
    for (name, leads) in [("", false), ("leader_", true)] {
        let watched = watch(options, bench, leads).await?;
        for (figure, value) in watched {
            report.figure(format!("{name}{figure}"), value / f64::from(options.seconds));
        }
    }
    Ok(report)
}

/// What one worker took in all that time.
async fn watch(options: &Options, bench: &Bench, leads: bool) -> Result<Vec<(&'static str, f64)>> {
    let scratch = Scratch::new(bench).await?;
    statements::track(&scratch, true).await?;
    let pool = scratch.pool(1);
    // As services have it: with the minute of the other scenarios the leader looks after the ring all the time.
    sqlx::raw_sql("update awa.ring set completed_retention = default").execute(&pool).await?;
    let (connect, stop) = (scratch.options(), CancellationToken::new());
    let stopped = stop.clone();
    let worker = runtime::start("worker", 2, move || async move {
        let builder = Client::builder(PgPool::connect_with(connect).await?)
            .register(async |_: Noop| -> std::result::Result<(), JobError> { Ok(()) });
        let client = if leads { builder } else { builder.without_maintenance() }.build()?;
        client.run_until(stopped.cancelled_owned()).await?;
        client.pool().close().await;
        Ok(())
    });
    time::sleep(SETTLING).await;
    let meter = Meter::start(pool.clone()).await?;
    if bench.statements.is_some() {
        statements::reset(&pool).await?;
    }
    let before = counted(&pool).await?;
    time::sleep(Duration::from_secs(options.seconds.into())).await;
    let after = counted(&pool).await?;
    let cost = meter.cost(0.0).await?;
    if let Some(count) = bench.statements {
        for one in statements::most_sent(&pool, count).await? {
            println!("  {:>6} calls  {}", one.calls, one.text);
        }
    }
    stop.cancel();
    worker.join().await?;
    pool.close().await;
    scratch.drop().await?;
    let mut watched = vec![
        // The second reading counts the first.
        ("statements_per_s", after.0 - before.0 - 1.0),
        ("transaction_ids_per_s", after.1 - before.1),
        ("wal_bytes_per_s", cost.wal_bytes),
    ];
    if let Some(seconds) = cost.server_seconds {
        watched.push(("server_cpu_us_per_s", seconds * 1e6));
    }
    watched.push(("client_cpu_us_per_s", cost.own_seconds.get("worker").copied().unwrap_or(0.0) * 1e6));
    Ok(watched)
}

/// Statements that sessions of this database have sent, and transaction ids given out by the server.
async fn counted(pool: &PgPool) -> Result<(f64, f64)> {
    Ok(sqlx::query_as(
        "select coalesce(sum(calls) filter (where toplevel), 0)::float8,
                pg_snapshot_xmax(pg_current_snapshot())::text::float8
           from pg_stat_statements
          where dbid = (select oid from pg_database where datname = current_database())",
    )
    .fetch_one(pool)
    .await?)
}
