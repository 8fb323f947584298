//! Question: what does a handler pay for one report, and what does more metadata add to it?
//! Shape: the progress behind the mutex that handler and heartbeat share; metadata of no entries, of ten, and of 2,000 (about
//! 40 KiB), of which one changes. `snapshot` is what the heartbeat does with it.
//! Surprise would be: `set` near a microsecond, or a `set` or `checkpoint` that costs more where more is in the metadata, since
//! handlers report inside their loops.
//! Fixed data; no database.

use std::hint::black_box;
use std::sync::Mutex;

use awa_model::{MetadataChange, Progress, limits};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

fn with_entries(number: usize) -> Mutex<Progress> {
    let metadata: Value =
        (0..number).map(|key| (format!("key_{key}"), json!(key))).collect::<serde_json::Map<_, _>>().into();
    let stored = json!({ "percent": 10, "message": "half the tiles", "metadata": metadata });
    Mutex::new(Progress::from_json(stored))
}

fn progress(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("progress");
    group.throughput(Throughput::Elements(1));
    for entries in [0, 10, 2_000] {
        let reported = with_entries(entries);
        let locked = || reported.lock().unwrap();
        group.bench_function(BenchmarkId::new("set", entries), |bencher| {
            bencher.iter(|| locked().set(black_box(50), "half the tiles"));
        });
        group.bench_function(BenchmarkId::new("checkpoint", entries), |bencher| {
            bencher.iter(|| {
                let change = MetadataChange::checkpoint("key_7", &black_box(8), limits::PROGRESS_BYTES_MAX)?;
                locked().apply(change)
            });
        });
        group.bench_function(BenchmarkId::new("snapshot", entries), |bencher| bencher.iter(|| locked().to_json()));
    }
    group.finish();
}

criterion_group!(benches, progress);
criterion_main!(benches);
