//! How fast jobs go in: one by one, 1,000 a call, and 10,000 by COPY; one producer, and eight. The measure is a plain INSERT of
//! the same values into a plain table with two indexes, and for COPY a bare one into the table of jobs itself; each in turn
//! with it, so that both meet the same machine.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use awa_model::PreparedJob;
use hdrhistogram::Histogram;
use sqlx::PgPool;

use crate::{
    Bench, Result,
    database::Scratch,
    jobs::{Jobs, Shape},
    meter::{Cost, Meter},
    report::Report,
    runtime, statements,
};

/// Jobs in one call of the "many" kind.
const MANY: usize = 1_000;
/// Jobs in one COPY.
const COPIED: usize = 10_000;
/// Batches that each producer sends in turn.
const BATCHES_PREPARED: usize = 8;
/// Awa and the measure take turns this often.
const ROUNDS: u32 = 3;

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How long each of the twelve measurements takes.
    #[arg(long, default_value_t = 6)]
    pub(super) seconds: u32,
}

/// The ways to put jobs in, and what their figures are called.
const WAYS: [Way; 6] = [
    Way { name: "single_1", producers: 1, jobs: 1 },
    Way { name: "single_8", producers: 8, jobs: 1 },
    Way { name: "many_1", producers: 1, jobs: MANY },
    Way { name: "many_8", producers: 8, jobs: MANY },
    Way { name: "copy_1", producers: 1, jobs: COPIED },
    Way { name: "copy_8", producers: 8, jobs: COPIED },
];

pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) producers: u64,
    pub(super) jobs: usize,
}

/// Rows that went in, what they cost, and how long each call took, microseconds.
pub(super) struct Inserted {
    rows: u64,
    seconds: f64,
    cost: Cost,
    calls: Histogram<u64>,
}

/// Runs it once.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    statements::track(&scratch, bench.statements.is_some()).await?;
    let pool = scratch.pool(1);
    sqlx::raw_sql(
        "create sequence public.plain_seq;
         create table public.plain (
             id       bigint generated always as identity primary key,
             seq      bigint not null default nextval('public.plain_seq'),
             at       timestamptz not null default now(),
             priority smallint not null,
             kind     text not null,
             queue    text not null,
             args     jsonb not null
         );
         create index on public.plain (queue, priority, seq)",
    )
    .execute(&pool)
    .await?;
    let mut report = Report::new("enqueue", &pool).await?;
    let slice = Duration::from_secs(options.seconds.into()) / ROUNDS;
    for way in &WAYS {
        let (mut ours, mut plain) = (Inserted::nothing()?, Inserted::nothing()?);
        for _ in 0..ROUNDS {
            ours.add(&insert(&scratch, &pool, slice, way, true).await?)?;
            plain.add(&insert(&scratch, &pool, slice, way, false).await?)?;
        }
        println!("  {:<10}{:>10.0} rows/s, the measure {:.0}", way.name, ours.rate(), plain.rate());
        report.figure(way.name, ours.rate().round());
        report.figure(format!("{}_of_plain", way.name), ours.rate() / plain.rate());
        report.figure(format!("{}_wal_bytes", way.name), ours.cost.wal_bytes / ours.rows as f64);
        if let (Some(cpu), Some(plain_cpu)) = (ours.cpu(), plain.cpu()) {
            report.figure(format!("{}_cpu_of_plain", way.name), cpu / plain_cpu);
        }
        if way.name == "single_1" {
            report.jobs_per_s = ours.rate().round();
            report.latency("one call of single_1", ours.calls.clone());
            report.wal_bytes_per_job = Some(ours.cost.wal_bytes / ours.rows as f64);
            report.server_cpu_us_per_job = ours.cpu();
        }
    }
    if let Some(count) = bench.statements {
        report.statements = statements::top(&pool, count).await?;
    }
    pool.close().await;
    scratch.drop().await?;
    Ok(report)
}

impl Inserted {
    fn nothing() -> Result<Self> {
        Ok(Self { rows: 0, seconds: 0.0, cost: Cost::default(), calls: Histogram::new(3)? })
    }

    fn add(&mut self, other: &Self) -> Result {
        self.rows += other.rows;
        self.seconds += other.seconds;
        self.cost.wal_bytes += other.cost.wal_bytes;
        self.cost.server_seconds =
            other.cost.server_seconds.map(|seconds| seconds + self.cost.server_seconds.unwrap_or(0.0));
        self.calls.add(&other.calls)?;
        Ok(())
    }

    /// Rows a second.
    pub(super) fn rate(&self) -> f64 {
        self.rows as f64 / self.seconds
    }

    /// CPU time of the server a row, microseconds.
    fn cpu(&self) -> Option<f64> {
        self.cost.server_seconds.map(|seconds| seconds * 1e6 / self.rows as f64)
    }
}

/// Inserts for the length of a slice, each producer on a connection of its own.
pub(super) async fn insert(
    scratch: &Scratch,
    pool: &PgPool,
    slice: Duration,
    way: &Way,
    ours: bool,
) -> Result<Inserted> {
    let meter = Meter::start(pool.clone()).await?;
    let jobs = way.jobs;
    let crews: Vec<_> = (0..way.producers)
        .map(|producer| {
            let options = scratch.options();
            runtime::start("producer", 1, move || async move {
                let pool = PgPool::connect_with(options).await?;
                let batches = (0..BATCHES_PREPARED)
                    .map(|_| Jobs::new(producer, Shape::USUAL).batch(jobs))
                    .collect::<Result<Vec<Vec<PreparedJob>>>>()?;
                let mut inserted = Inserted::nothing()?;
                let started = Instant::now();
                for batch in batches.iter().cycle() {
                    let call = Instant::now();
                    match (ours, batch.as_slice()) {
                        (true, [job]) => drop(awa_storage::enqueue::enqueue(&pool, job).await?),
                        (true, many) if many.len() == COPIED => {
                            drop(awa_storage::enqueue::enqueue_copy(&mut *pool.acquire().await?, many).await?);
                        }
                        (true, many) => drop(awa_storage::enqueue::enqueue_many(&pool, many).await?),
                        (false, [job]) => plain_insert(&pool, job).await?,
                        (false, many) if many.len() == COPIED => bare_copy(&pool, many).await?,
                        (false, many) => plain_insert_many(&pool, many).await?,
                    }
                    inserted.calls.record(u64::try_from(call.elapsed().as_micros())?)?;
                    inserted.rows += batch.len() as u64;
                    if started.elapsed() >= slice {
                        break;
                    }
                }
                inserted.seconds = started.elapsed().as_secs_f64();
                pool.close().await;
                Ok(inserted)
            })
        })
        .collect();
    let mut sum = Inserted::nothing()?;
    for crew in crews {
        let one = crew.join().await?;
        sum.rows += one.rows;
        sum.seconds = sum.seconds.max(one.seconds);
        sum.calls.add(&one.calls)?;
    }
    sum.cost = meter.cost(0.0).await?;
    Ok(sum)
}

async fn plain_insert(pool: &PgPool, job: &PreparedJob) -> Result {
    sqlx::query(
        "insert into public.plain (priority, kind, queue, args) values ($1, $2, $3, $4::text::jsonb) returning id",
    )
    .bind(job.priority.get())
    .bind(job.kind.as_str())
    .bind(job.queue.as_str())
    .bind(&job.args)
    .fetch_one(pool)
    .await?;
    Ok(())
}

async fn plain_insert_many(pool: &PgPool, jobs: &[PreparedJob]) -> Result {
    let texts = |of: fn(&PreparedJob) -> &str| jobs.iter().map(of).collect::<Vec<&str>>();
    sqlx::query(
        "insert into public.plain (priority, kind, queue, args)
         select priority, kind, queue, args::jsonb from unnest($1::smallint[], $2::text[], $3::text[], $4::text[])
             as given (priority, kind, queue, args)
         returning id",
    )
    .bind(jobs.iter().map(|job| job.priority.get()).collect::<Vec<i16>>())
    .bind(texts(|job| job.kind.as_str()))
    .bind(texts(|job| job.queue.as_str()))
    .bind(texts(|job| job.args.as_str()))
    .fetch_all(pool)
    .await?;
    Ok(())
}

/// The least that a COPY of these jobs can be: four columns, as text, the rest by default.
async fn bare_copy(pool: &PgPool, jobs: &[PreparedJob]) -> Result {
    let mut connection = pool.acquire().await?;
    let mut copy = connection
        .copy_in_raw(
            "copy awa.jobs_hot (priority, kind, queue, args) from stdin (format csv, delimiter e'\t', quote e'\x01')",
        )
        .await?;
    let mut rows = String::new();
    for job in jobs {
        writeln!(rows, "{}\t{}\t{}\t{}", job.priority.get(), job.kind.as_str(), job.queue.as_str(), job.args)?;
    }
    copy.send(rows.into_bytes()).await?;
    copy.finish().await?;
    Ok(())
}
