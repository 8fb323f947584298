//! Question: what does one observation of the settled horizon cost in the worker, with how many transactions open?
//! Shape: marks flow, ten transactions of a hundred end between two observations, one in a thousand stays open for good.
//! Surprise would be: more than a few microseconds with 100 open, since a worker observes 40 times a second; or growth
//! faster than the number of open transactions.
//! Fixed seed; no database.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use awa_storage::claim::{Horizon, Observation};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

/// Observations in one pass.
const OBSERVATIONS: i64 = 64;

/// What a worker sees while `open` transactions are open at any moment and a tenth of them change each time.
fn observations(open: i64) -> Vec<Observation> {
    let step = (open / 10).max(1);
    (0..OBSERVATIONS)
        .map(|tick| {
            let first = 1_000 + tick * step;
            let mut xids: Vec<i64> = (first..first + open).collect();
            // Long open: the horizon has to go on without it.
            xids.push(999);
            Observation { open: xids, seq: (tick + 1) * 500, xid: Some(first + open) }
        })
        .collect()
}

fn observe(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("horizon");
    for open in [1, 10, 100, 1_000] {
        let seen = observations(open);
        group.throughput(Throughput::Elements(seen.len() as u64));
        group.bench_with_input(BenchmarkId::new("observe", open), &seen, |bencher, seen| {
            let start = Instant::now();
            bencher.iter(|| {
                let mut horizon = Horizon::starting_at(0);
                for (tick, one) in (0..).zip(seen) {
                    black_box(horizon.observe(one, start + Duration::from_millis(25) * tick));
                }
                horizon.settled()
            });
        });
    }
    group.finish();
}

criterion_group!(benches, observe);
criterion_main!(benches);
