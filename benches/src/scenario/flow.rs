//! What ceiling, sustained, pinned and scale have in common: a producer and a consumer side by side for some seconds, counted by
//! the sampler; then the consumer finishes what is left, and the cost is spread over all jobs.

use crate::{
    Bench, Result, claims,
    consumer::{Consumer, Kind},
    database::Scratch,
    jobs::Shape,
    meter::Meter,
    pin::Pin,
    producer::{Call, Offer, Producer},
    report::Report,
    sampler::Sampler,
    seed, statements,
};

/// Rows that wait in a lane, at most: the sampler reads that far.
const WINDOW: i64 = 50_000;

/// What runs for how long.
pub(super) struct Plan {
    /// The scenario.
    pub(super) name: &'static str,
    /// How long the producer enqueues.
    pub(super) seconds: u32,
    /// Who takes the jobs.
    pub(super) consumer: Kind,
    /// What they are like.
    pub(super) shape: Shape,
    /// How fast they come.
    pub(super) offer: Offer,
    /// How they are enqueued.
    pub(super) call: Call,
    /// What stays open meanwhile.
    pub(super) pin: Option<Pin>,
    /// Deferred jobs that become due meanwhile.
    pub(super) due_per_second: u32,
}

/// Runs it once, in a database of its own.
pub(super) async fn run(plan: &Plan, bench: &Bench) -> Result<Report> {
    let scratch = Scratch::new(bench).await?;
    let report = run_in(plan, bench, &scratch).await?;
    scratch.drop().await?;
    Ok(report)
}

/// Runs it once, in a database that may hold other jobs already. None of them may be due.
pub(super) async fn run_in(plan: &Plan, bench: &Bench, scratch: &Scratch) -> Result<Report> {
    statements::track(scratch, bench.statements.is_some()).await?;
    let pool = scratch.pool(1);
    let mut report = Report::new(plan.name, &pool).await?;
    report.setting("consumer", format!("{:?}", plan.consumer));
    report.setting("shape", format!("{:?}", plan.shape));
    report.setting("offer", format!("{:?}", plan.offer));
    report.setting("call", format!("{:?}", plan.call));
    report.setting("pin", plan.pin.map_or("none", Pin::name));
    let pinned = match plan.pin {
        Some(pin) => Some(pin.open(scratch).await?),
        None => None,
    };
    let meter = Meter::start(pool.clone()).await?;
    if bench.statements.is_some() {
        statements::reset(&pool).await?;
    }

    // A sequence from which nothing was drawn already names its first value.
    let drawn: i64 = sqlx::query_scalar("select last_value - case when is_called then 0 else 1 end from awa.job_seq")
        .fetch_one(&pool)
        .await?;
    claims::take();
    if plan.due_per_second > 0 {
        seed::due(scratch, plan.due_per_second, plan.seconds).await?;
    }
    let due = u64::from(plan.due_per_second) * u64::from(plan.seconds);
    let consumer = Consumer::start(scratch, plan.consumer, plan.shape);
    let producer = Producer::start(scratch, plan.offer, plan.shape, plan.call, consumer.handled());
    consumer.has_begun().await;
    let mut sampler = Sampler::start(scratch, plan.shape, drawn, WINDOW);
    sampler.has_sampled(plan.seconds as usize).await;
    let enqueued = producer.stop().await?;
    consumer.finish(enqueued, due).await?;
    let enqueued = enqueued + due;
    let samples = sampler.stop().await?;
    let cost = meter.cost(samples.server_seconds).await?;

    if let Some(claims) = claims::take() {
        report.claims(&claims);
    }
    report.samples(&samples, plan.seconds as usize);
    report.cost(&cost, enqueued as f64);
    report.hot_ratio = meter.hot_ratio().await?;
    if let Some(count) = bench.statements {
        report.statements = statements::top(&pool, count).await?;
    }
    if let Some(pinned) = pinned {
        pinned.release().await?;
    }
    pool.close().await;
    if samples.completed != i64::try_from(enqueued)? {
        return Err(format!("{enqueued} jobs were enqueued, {} are completed", samples.completed).into());
    }
    Ok(report)
}
