//! Benchmarks of incoming blocks: decoding, and recovery of the senders of the transactions.

use alloy_primitives::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use polytrie_chain::executor::recover_senders;
use polytrie_consensus::{decode::decode_block, recover_sender};
use polytrie_files::BlockReader;
use std::{hint::black_box, path::Path};

/// Returns the RLP of the largest block of the sample chain.
fn block() -> Bytes {
    let chain =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../client/tests/data/sample/chain.rlp.gz");
    let reader = BlockReader::open(chain).expect("the sample chain is there");
    let blocks = reader.map(|block| block.expect("the sample chain is whole").rlp);
    blocks.max_by_key(|rlp| rlp.len()).expect("it has blocks")
}

fn benchmark(criterion: &mut Criterion) {
    let rlp = block();
    let block = decode_block(&rlp).expect("the sample chain is valid");
    let transactions = block.body.transactions;

    let mut group = criterion.benchmark_group("blocks");
    group.throughput(Throughput::Bytes(rlp.len() as u64));
    group.bench_function("decoding the largest block of the sample", |bencher| {
        bencher.iter(|| black_box(decode_block(&rlp)));
    });
    group.throughput(Throughput::Elements(transactions.len() as u64));
    group.bench_function("senders of its transactions", |bencher| {
        bencher.iter(|| black_box(recover_senders(&transactions)));
    });
    group.bench_function("the same, one after the other", |bencher| {
        bencher.iter(|| transactions.iter().for_each(|tx| drop(black_box(recover_sender(tx)))));
    });
    group.finish();
}

criterion_group!(benches, benchmark);
criterion_main!(benches);
