//! Counts in the database, once a second, how many jobs have been completed. Nothing that a client believes enters here.
//!
//! Lane by lane it walks the dispatch order: up to a floor everything is known to be completed, and beyond the floor it
//! reads what is there. So a second costs about as many row visits as jobs are completed or wait. The CPU time of its
//! backend is measured and left out of the server's.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::{Connection as _, PgConnection, Row as _, postgres::PgRow};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::{
    Result,
    database::Scratch,
    jobs::Shape,
    numbers::grouped,
    processor,
    runtime::{self, Crew},
};

/// A sampler at work.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    seconds: watch::Receiver<usize>,
    crew: Crew<Samples>,
}

/// What it saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// Jobs completed, second by second.
    pub(crate) per_second: Vec<f64>,
    /// CPU time of the server a job, microseconds, second by second: steadier than the rate where others use the machine.
    pub(crate) cpu_per_second: Vec<f64>,
    /// The most dead rows of each table outside the ring, where there were any.
    pub(crate) dead_rows: BTreeMap<String, i64>,
    /// CPU time that the samples took on the server.
    pub(crate) server_seconds: f64,
    /// Jobs completed in all.
    pub(crate) completed: i64,
}

/// Everything up to a floor is completed, a floor for each lane: four of each queue, one after the other.
struct Floors {
    window: i64,
    queues: Vec<String>,
    priorities: Vec<i16>,
    floors: Vec<i64>,
    passed: i64,
    drawn: i64,
}

impl Sampler {
    /// Samples every second until stopped; prints a line each time. What was numbered up to `from` is none of its business.
    /// Reads `window` rows beyond the floor of a lane at once.
    pub(crate) fn start(scratch: &Scratch, shape: Shape, from: i64, window: i64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let options =
            scratch.options().options([("enable_seqscan", "off"), ("enable_bitmapscan", "off"), ("jit", "off")]);
        let stopped = Arc::clone(&stop);
        let (sampled, seconds) = watch::channel(0);
        let crew = runtime::start("sampler", 1, move || async move {
            let mut connection = PgConnection::connect_with(&options).await?;
            let samples = sample(&mut connection, Floors::new(shape, from, window), &sampled, &stopped).await?;
            connection.close().await?;
            Ok(samples)
        });
        Self { stop, seconds, crew }
    }

    /// Waits until so many seconds have been sampled, or sampling has failed.
    pub(crate) async fn has_sampled(&mut self, seconds: usize) {
        // An error means that the crew has ended, which `stop` reports.
        let _ = self.seconds.wait_for(|sampled| *sampled >= seconds).await;
    }

    /// Stops after the second that has begun.
    pub(crate) async fn stop(self) -> Result<Samples> {
        self.stop.store(true, Ordering::Relaxed);
        self.crew.join().await
    }
}

async fn sample(
    connection: &mut PgConnection,
    mut floors: Floors,
    sampled: &watch::Sender<usize>,
    stop: &AtomicBool,
) -> Result<Samples> {
    let backend: i32 = sqlx::query_scalar("select pg_backend_pid()").fetch_one(&mut *connection).await?;
    let server = processor::Server::of_backend(backend);
    let cpu_now = || server.and_then(processor::Server::seconds).unwrap_or(0.0);
    let mut samples = Samples::default();
    let mut before = floors.count(connection).await?;
    let mut cpu_before = cpu_now();
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = ticks.tick().await;
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let now = Instant::now();
        let completed = floors.count(connection).await?;
        let rate = (completed - before) as f64 / now.duration_since(last).as_secs_f64();
        let cpu = cpu_now();
        samples.per_second.push(rate);
        sampled.send_replace(samples.per_second.len());
        samples.cpu_per_second.push((cpu - cpu_before) * 1e6 / (completed - before).max(1) as f64);
        (before, cpu_before, last) = (completed, cpu, now);
        let dead = note_dead_rows(connection, &mut samples.dead_rows).await?;
        println!("{:>5} s  {:>9}/s  {:>6} dead rows outside the ring", samples.per_second.len(), grouped(rate), dead);
    }
    samples.completed = floors.count(connection).await?;
    samples.server_seconds = processor::seconds_of(backend).unwrap_or(0.0);
    Ok(samples)
}

/// Keeps the most dead rows of each table outside the ring; answers their number now.
async fn note_dead_rows(connection: &mut PgConnection, most: &mut BTreeMap<String, i64>) -> Result<i64> {
    let rows = sqlx::query(
        "select schemaname || '.' || relname as name, n_dead_tup
           from pg_stat_all_tables
          where n_dead_tup > 0
            and not (schemaname = 'awa' and relname ~ '^jobs_hot_[0-7]$')",
    )
    .fetch_all(connection)
    .await?;
    let mut sum = 0;
    for row in rows {
        let dead: i64 = row.try_get("n_dead_tup")?;
        sum += dead;
        let most = most.entry(row.try_get("name")?).or_default();
        *most = (*most).max(dead);
    }
    Ok(sum)
}

impl Floors {
    /// What was numbered up to `from` is passed by, uncounted.
    fn new(shape: Shape, from: i64, window: i64) -> Self {
        let lanes =
            shape.queue_names().into_iter().flat_map(|queue| (1..=4).map(move |priority| (queue.clone(), priority)));
        let (queues, priorities): (Vec<String>, Vec<i16>) = lanes.unzip();
        Self { window, floors: vec![from; queues.len()], queues, priorities, passed: 0, drawn: from }
    }

    /// Jobs completed so far. Counted at least a second apart; inserting transactions are shorter here.
    async fn count(&mut self, connection: &mut PgConnection) -> Result<i64> {
        let drawn: i64 = sqlx::query_scalar("select last_value from awa.job_seq").fetch_one(&mut *connection).await?;
        let mut beyond = 0;
        let mut lanes: Vec<usize> = (0..self.floors.len()).collect();
        while !lanes.is_empty() {
            let rows = self.look(connection, &lanes).await?;
            // A lane whose window was full and moved on has more behind it.
            let mut full = Vec::new();
            for (lane, row) in lanes.iter().copied().zip(rows) {
                let (visited, passed): (i64, i64) = (row.try_get("visited")?, row.try_get("passed")?);
                self.floors[lane] = self.floors[lane].max(row.try_get("floor")?);
                self.passed += passed;
                if visited == self.window && passed > 0 {
                    full.push(lane);
                } else {
                    beyond += row.try_get::<i64, _>("done")? - passed;
                }
            }
            lanes = full;
        }
        self.drawn = drawn;
        Ok(self.passed + beyond)
    }

    /// What lies beyond the floors of these lanes, a row for each, in order.
    async fn look(&self, connection: &mut PgConnection, lanes: &[usize]) -> Result<Vec<PgRow>> {
        let rows = sqlx::query(
            "select found.visited, found.done, found.passed, found.floor
               from unnest($1::text[], $2::smallint[], $3::bigint[]) with ordinality
                        as lane (queue, priority, floor, place),
                    lateral (
                        with ahead as materialized (
                            select job.seq, job.state = 'completed' as done
                              from awa.jobs_hot as job
                             where job.segment >= 0
                               and job.queue = lane.queue
                               and job.priority = lane.priority
                               and job.seq > lane.floor
                             order by job.seq
                             limit $4
                        ),
                        floor as materialized (
                            -- What was drawn before the last count is visible by now; later rows may still come in below.
                            select least(coalesce(min(seq) filter (where not done) - 1, max(seq)), $5) as seq from ahead
                        )
                        select count(*) as visited,
                               count(*) filter (where done) as done,
                               count(*) filter (where done and ahead.seq <= floor.seq) as passed,
                               coalesce(max(floor.seq), 0) as floor
                          from ahead, floor
                    ) as found
              order by lane.place",
        )
        .bind(lanes.iter().map(|lane| self.queues[*lane].as_str()).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| self.priorities[*lane]).collect::<Vec<_>>())
        .bind(lanes.iter().map(|lane| self.floors[*lane]).collect::<Vec<_>>())
        .bind(self.window)
        .bind(self.drawn)
        .fetch_all(connection)
        .await?;
        Ok(rows)
    }
}
