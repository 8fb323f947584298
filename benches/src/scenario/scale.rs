//! Whether millions of jobs that wait for their time, and millions that are done, slow down those that run: `sustained` in an
//! empty database and in a full one, in turn, so that both meet the same machine. In the full one deferred jobs become due
//! all the while, which the empty one does not have.

use std::time::Duration;

use awa_storage::ring::{empty_claims, switch_claims};

use super::{
    flow::{self, Plan},
    pairs::Pairs,
};
use crate::{
    Bench, Result,
    consumer::Kind,
    database::Scratch,
    jobs::Shape,
    producer::{Call, Offer},
    report::Report,
    seed,
};

/// What can be chosen.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Jobs that wait for a time in the next thirty days.
    #[arg(long, default_value_t = 5_000_000)]
    scheduled: u64,
    /// Jobs that are completed and kept.
    #[arg(long, default_value_t = 5_000_000)]
    completed: u64,
    /// Deferred jobs that become due each second.
    #[arg(long, default_value_t = 2_000)]
    due: u32,
    /// How often each of the two runs.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pairs: u32,
    /// How long the producer enqueues in each.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Jobs that the worker holds at once.
    #[arg(long, default_value_t = 1_024)]
    max_workers: usize,
    /// Jobs that wait at most.
    #[arg(long, default_value_t = 10_000)]
    backlog: u64,
    /// Offer so many jobs a second instead.
    #[arg(long)]
    rate: Option<u64>,
}

/// Runs all pairs.
pub(crate) async fn run(options: &Options, bench: &Bench) -> Result<Report> {
    let full = Scratch::new(bench).await?;
    keep_long(&full).await?;
    println!("  putting in {} deferred and {} completed jobs", options.scheduled, options.completed);
    seed::fill(&full, options.scheduled, options.completed).await?;
    let mut plan = Plan {
        name: "scale",
        seconds: options.seconds,
        consumer: Kind::Worker { max_workers: options.max_workers, reports: false },
        shape: Shape::USUAL,
        offer: options.rate.map_or(Offer::Backlog(options.backlog), Offer::Rate),
        call: Call::Insert,
        pin: None,
        due_per_second: 0,
    };
    let mut pairs = Pairs::default();
    for pair in 1..=options.pairs {
        let empty = Scratch::new(bench).await?;
        keep_long(&empty).await?;
        println!("  pair {pair}: empty");
        plan.due_per_second = 0;
        let base = flow::run_in(&plan, bench, &empty).await?;
        empty.drop().await?;
        println!("  pair {pair}: full");
        plan.due_per_second = options.due;
        forget_batches(&full).await?;
        let report = flow::run_in(&plan, bench, &full).await?;
        if bench.statements.is_some() {
            print!("{report}");
        }
        pairs.push(base, report);
    }
    full.drop().await?;
    let mut report = pairs.report("of_empty")?;
    report.setting("scheduled", options.scheduled);
    report.setting("completed", options.completed);
    report.setting("due_per_second", options.due);
    Ok(report)
}

/// Completed jobs stay: neither database has a segment emptied in the course of a run.
async fn keep_long(scratch: &Scratch) -> Result {
    let pool = scratch.pool(1);
    sqlx::raw_sql("update awa.ring set completed_retention = '24 hours'").execute(&pool).await?;
    pool.close().await;
    Ok(())
}

/// Empties both parts of `awa.active_claims`. They list what the worker of the run before has done, all of it completed: rescue
/// would look at it again and again, as after each restart of a worker, which is not what is compared here.
async fn forget_batches(scratch: &Scratch) -> Result {
    let pool = scratch.pool(1);
    for _ in 0..2 {
        empty_claims(&pool, u32::MAX).await?;
        switch_claims(&pool, 0, Duration::ZERO).await?;
    }
    pool.close().await;
    Ok(())
}
