//! Question: what does a producer pay in memory for one job?
//! Shape: args of about 150 bytes in six fields.
//! Surprise would be: preparing a job near 10 us, which is what the server pays to insert one.
//! Fixed data; no database.

use std::hint::black_box;

use awa_model::NewJob;
use awa_worker::JobArgs;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, JobArgs)]
struct SendReceipt {
    number: u64,
    account: u64,
    address: String,
    template: String,
    trace: String,
    retries: bool,
}

fn args() -> SendReceipt {
    SendReceipt {
        number: 1_234,
        account: 987_654,
        address: "someone.4321@example.com".to_owned(),
        template: "order_confirmation".to_owned(),
        trace: "0af7651916cd43dd".to_owned(),
        retries: false,
    }
}

fn prepare(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("job");
    group.throughput(Throughput::Elements(1));
    let args = args();
    group.bench_function("prepare", |bencher| {
        bencher.iter(|| NewJob::new(black_box(&args)).priority(3).prepare());
    });
    group.finish();
}

criterion_group!(benches, prepare);
criterion_main!(benches);
