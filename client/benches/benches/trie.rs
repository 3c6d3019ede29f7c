//! Benchmarks of the Merkle Patricia trie: the commit of a block, and a read along one path.

use alloy_primitives::{B256, U256, keccak256};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use polytrie_kv::{Batch, Read, Store, Table};
use polytrie_trie::{Rows, SlotValue, SortedBuilder, Trie};
use std::hint::black_box;

/// Number of slots in the trie.
const SLOTS: u64 = 100_000;
/// Number of slots that one block changes.
const CHANGED: u64 = 1_000;
const ROWS: Table = Table::new(0, "rows", 96);

type Change = (B256, Option<SlotValue>);

/// Returns the root of a trie of [`SLOTS`] slots, and the memory store with its rows.
fn stored() -> (B256, Store) {
    let mut slots: Vec<(B256, U256)> =
        (0..SLOTS).map(|n| (keccak256(n.to_be_bytes()), U256::from(n + 1))).collect();
    slots.sort_unstable();
    let mut builder = SortedBuilder::new(Rows::new(Batch::new(), ROWS));
    for (key, value) in slots {
        builder.add(key, SlotValue(value));
    }
    let (root, rows) = builder.finish();
    let store = Store::memory(&[ROWS]).expect("memory does not fail");
    store.write(rows.into_inner()).expect("memory does not fail");
    store.checkpoint().expect("memory does not fail");
    (root, store)
}

/// Returns the changes of block `number`, sorted by key.
fn changes(number: u64) -> Vec<Change> {
    let slot = |n: u64| (number * CHANGED + n * 97) % SLOTS;
    let mut changes: Vec<Change> = (0..CHANGED)
        .map(|n| (keccak256(slot(n).to_be_bytes()), Some(SlotValue(U256::from(number + n + 7)))))
        .collect();
    changes.sort_unstable_by_key(|(key, _)| *key);
    changes.dedup_by_key(|(key, _)| *key);
    changes
}

fn benchmark(criterion: &mut Criterion) {
    let (root, store) = stored();
    let rows = Rows::new(&store as &dyn Read, ROWS);

    let mut group = criterion.benchmark_group("trie");
    group.throughput(Throughput::Elements(CHANGED));
    let mut trie = Trie::<SlotValue>::stored(root);
    let mut number = 0;
    group.bench_function("commit of 1,000 slots among 100,000, in memory", |bencher| {
        bencher.iter_batched(
            || {
                number += 1;
                changes(number)
            },
            |changes| {
                trie.update(&changes, &rows).expect("memory does not fail");
                black_box(trie.commit(Rows::new(Batch::new(), ROWS)))
            },
            BatchSize::SmallInput,
        );
    });

    group.throughput(Throughput::Elements(1));
    let mut n = 0;
    group.bench_function("path of a slot among 100,000, from its rows", |bencher| {
        bencher.iter(|| {
            n = (n + 7_919) % SLOTS;
            let mut trie = Trie::<SlotValue>::stored(root);
            let value = trie.get(&keccak256(n.to_be_bytes()), &rows).expect("memory does not fail");
            black_box(value.is_some())
        });
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
