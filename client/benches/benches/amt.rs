//! Benchmarks of the vector commitment of `lvmt`: an update of versions, the opening of an entry and its verification.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polytrie_amt::{Claim, Counting, Entry, PowersOfTau, Setup, commit, open, verify};
use std::hint::black_box;

/// Height of the vectors: 4,096 entries. The vectors of a chain have height 16; deriving their tables takes longer than
/// all measurements here.
const HEIGHT: u8 = 12;
/// Number of versions that one block increments.
const UPDATES: u32 = 1_000;
/// Number of entries in the vector that is opened.
const ENTRIES: u32 = 153;

fn benchmark(criterion: &mut Criterion) {
    let powers = PowersOfTau::insecure_dev(HEIGHT, "bench").expect("the height is good");
    let setup = Setup::derive(&powers, true, &mut |_| {});
    let length = 1u32 << HEIGHT;

    let mut group = criterion.benchmark_group("amt");
    group.throughput(Throughput::Elements(UPDATES.into()));
    group.bench_function("update of 1,000 versions in 1,000 vectors", |bencher| {
        bencher.iter(|| {
            let mut counting = Counting::new(&setup, UPDATES as usize, UPDATES as usize);
            for n in 0..UPDATES {
                counting.vector(setup.point(0, n), [(1, n * 7 % length)]);
            }
            black_box(counting.finish())
        });
    });

    group.throughput(Throughput::Elements(1));
    let entries: Vec<Entry> = (0..ENTRIES)
        .map(|n| Entry {
            index: n * (length / ENTRIES),
            versions: [0, u64::from(n) + 1, 0, 0, 0, 0],
        })
        .collect();
    let asked = &entries[1];
    group.bench_function("opening among 153 entries", |bencher| {
        bencher.iter(|| black_box(open(&setup, &entries, asked.index)));
    });

    let opening = open(&setup, &entries, asked.index).expect("the setup has tables for proofs");
    let commitment = commit(&setup, &entries);
    let claim =
        Claim { commitment, index: asked.index, versions: asked.versions, opening: &opening };
    group.bench_function("verification of an opening", |bencher| {
        bencher.iter(|| assert!(verify(setup.key(), &[claim])));
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
