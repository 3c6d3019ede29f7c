//! Benchmarks of the journal: a block's batch made durable, and the same batch written to the engine without a sync.

use alloy_primitives::keccak256;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use polytrie_kv::{Batch, Durability, MdbxEngine, MdbxOptions, Store, StoreOptions, Table};
use std::sync::Arc;

/// Number of rows in a batch.
const ROWS: u64 = 1_000;
/// Size of a value in bytes.
const VALUE: usize = 100;
const TABLE: Table = Table::new(0, "rows", 32);

/// Returns a batch that writes the same keys every time, so that the overlay stays small.
fn batch() -> Batch {
    let mut batch = Batch::new();
    for n in 0..ROWS {
        batch.put(TABLE, keccak256(n.to_be_bytes()).as_slice(), &[n as u8; VALUE]);
    }
    batch
}

fn benchmark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("journal");
    group.throughput(Throughput::Bytes(ROWS * (32 + VALUE as u64)));
    // An engine that is not durable has no journal: it writes each batch directly.
    for (durable, name) in [
        (true, "append of 1,000 rows to MDBX's journal, synced"),
        (false, "write of 1,000 rows to MDBX, not synced"),
    ] {
        let dir = tempfile::tempdir().expect("there is room for temporary files");
        let options = MdbxOptions { durable, ..MdbxOptions::new(dir.path(), &[TABLE]) };
        let engine = Arc::new(MdbxEngine::open(options).expect("an empty directory can be opened"));
        let options =
            StoreOptions { durability: Durability::EveryWrite, ..StoreOptions::default() };
        let store = Store::open(engine, &[TABLE], options).expect("a new store can be opened");
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                batch,
                |batch| store.write(batch).expect("there is room on the disk"),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
