//! How fast one worker process empties a full queue. Timed by the database: from the moment before the worker starts to the
//! last `finalized_at`.

use sqlx::{PgPool, Row as _};

use crate::{
    Bench, Result,
    consumer::{Consumer, Kind},
    database::Scratch,
    jobs::Shape,
    meter::Meter,
    producer::preload,
    report::Report,
    sampler::Sampler,
    statements,
};

/// Rows that the sampler reads beyond what is completed: the worker holds fewer at once.
const WINDOW: i64 = 5_000;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs in the queue.
    #[arg(long, default_value_t = 50_000)]
    pub(super) jobs: usize,
    /// Jobs that the worker holds at once.
    #[arg(long, default_value_t = 1_024)]
    pub(super) max_workers: usize,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    statements::track(&scratch, bench.statements.is_some()).await?;
    preload(&scratch, options.jobs).await?;
    let pool = scratch.pool(1);
    let consumer = Kind::Worker { max_workers: options.max_workers, reports: false };
    let mut report = Report::new("drain", &pool).await?;
    report.setting("jobs", options.jobs);
    report.setting("consumer", format!("{consumer:?}"));
    report.setting("wal_bytes_per_job", "without enqueueing");
    let meter = Meter::start(pool.clone()).await?;
    if bench.statements.is_some() {
        statements::reset(&pool).await?;
    }

    let started: f64 =
        sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8").fetch_one(&pool).await?;
    let sampler = Sampler::start(&scratch, Shape::USUAL, 0, WINDOW);
    let worker = Consumer::start(&scratch, consumer, Shape::USUAL);
    worker.finish(options.jobs as u64, 0).await?;
    let samples = sampler.stop().await?;
    let cost = meter.cost(samples.server_seconds).await?;

    let (per_second, took) = by_second(&pool, started).await?;
    if samples.completed != i64::try_from(options.jobs)? {
        return Err(format!("{} jobs, {} of them completed", options.jobs, samples.completed).into());
    }
    report.dead_tuples = samples.dead_rows;
    report.per_second = per_second;
    report.jobs_per_s = (options.jobs as f64 / took).round();
    report.cost(&cost, options.jobs as f64);
    report.hot_ratio = meter.hot_ratio().await?;
    if let Some(count) = bench.statements {
        report.statements = statements::top(&pool, count).await?;
    }
    pool.close().await;
    scratch.drop().await?;
    Ok(report)
}

/// Jobs completed in each second since `started`, and how long all of them took.
async fn by_second(pool: &PgPool, started: f64) -> Result<(Vec<f64>, f64)> {
    let rows = sqlx::query(
        "select floor(extract(epoch from finalized_at) - $1)::integer as second,
                count(*)::float8 as jobs,
                max(extract(epoch from finalized_at))::float8 - $1 as last
           from awa.jobs_hot
          where state = 'completed'
          group by 1
          order by 1",
    )
    .bind(started)
    .fetch_all(pool)
    .await?;
    let mut per_second = Vec::new();
    let mut took = 0.0;
    for row in rows {
        let second = usize::try_from(row.try_get::<i32, _>("second")?)?;
        per_second.resize(second.max(per_second.len()), 0.0);
        per_second.push(row.try_get("jobs")?);
        took = row.try_get("last")?;
    }
    Ok((per_second, took))
}
