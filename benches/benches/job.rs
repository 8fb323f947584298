//! Question: what does a producer pay in memory for one job, and a handler for one report of progress?
//! Shape: args of about 150 bytes in six fields; progress whose metadata has ten keys, of which one changes.
//! Surprise would be: preparing a job near 10 us, which is what the server pays to insert one; a report of progress that
//! costs more than a few microseconds, since handlers report inside their loops.
//! Fixed data; no database.

use std::hint::black_box;

use awa_model::{NewJob, Progress};
use awa_worker::JobArgs;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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

fn progress(criterion: &mut Criterion) {
    let metadata: Value =
        (0..10).map(|key| (format!("key_{key}"), json!(key))).collect::<serde_json::Map<_, _>>().into();
    let mut group = criterion.benchmark_group("progress");
    group.throughput(Throughput::Elements(1));
    let mut reported = Progress::from_json(json!({ "percent": 10, "message": "half the tiles", "metadata": metadata }));
    group.bench_function("set", |bencher| bencher.iter(|| reported.set(black_box(50), "half the tiles")));
    group.bench_function("update_metadata", |bencher| {
        bencher.iter(|| reported.update_metadata(json!({ "key_7": black_box(8) })));
    });
    group.bench_function("to_json", |bencher| bencher.iter(|| reported.to_json()));
    group.finish();
}

criterion_group!(benches, prepare, progress);
criterion_main!(benches);
