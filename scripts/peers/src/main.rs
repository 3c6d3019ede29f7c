//! The workload of `polytrie bench store` on NOMT: the same keys, the same draws, the
//! same durable commit a block. `scripts/compare-stores` runs it in turns with polytrie.

mod nomt_store;
mod workload;

use anyhow::{Context, Result};
use clap::Parser;
use nomt_store::Nomt;
use std::{path::PathBuf, time::Instant};
use workload::{Draw, Key, Value, Workload};

/// One run on NOMT; prints one line of JSON.
#[derive(Debug, Parser)]
struct Arguments {
    /// Directory of the store; filled if it is empty.
    #[arg(long)]
    dir: PathBuf,
    /// Keys before the first block.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Blocks that are measured.
    #[arg(long, default_value_t = 10)]
    blocks: u64,
    /// Blocks before those.
    #[arg(long, default_value_t = 2)]
    warmup_blocks: u64,
    /// Operations in a block: each reads one key and then writes it.
    #[arg(long, default_value_t = 100_000)]
    ops: u64,
    /// What keys and values follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads that compute and commit.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// MiB of cache.
    #[arg(long, default_value_t = 1024)]
    cache_mib: usize,
    /// Only fill the store.
    #[arg(long)]
    fill: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut store = Nomt::open(&arguments)?;
    let workload = Workload { seed: arguments.seed, keys: arguments.keys };
    if arguments.fill {
        return fill(&mut store, workload);
    }
    let mut draw = Draw::new(workload, arguments.ops);
    for _ in 0..arguments.warmup_blocks {
        block(&mut store, &draw.block())?;
    }
    let mut seconds = Vec::new();
    for _ in 0..arguments.blocks {
        let operations = draw.block();
        let start = Instant::now();
        block(&mut store, &operations)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    let total: f64 = seconds.iter().sum();
    let operations = arguments.blocks * arguments.ops;
    println!(
        "{}",
        serde_json::json!({
            "store": "nomt",
            "keys": arguments.keys,
            "ops": arguments.ops,
            "seed": arguments.seed,
            "cache_mib": arguments.cache_mib,
            "threads": arguments.threads,
            "operations_per_second": operations as f64 / total,
            "block_seconds": seconds,
        })
    );
    Ok(())
}

/// Sets every key to its first value, in batches that follow each other in the order of the keys, as polytrie fills its
/// own stores: at random, each batch would rewrite nearly every page of a store of ten million keys.
fn fill(store: &mut Nomt, workload: Workload) -> Result<()> {
    const BATCH: usize = 250_000;
    let pair = |n| (workload.key(n), workload.first_value(n));
    let mut writes: Vec<(Key, Value)> = (0..workload.keys).map(pair).collect();
    writes.sort_unstable();
    for batch in writes.chunks(BATCH) {
        store.commit(batch.to_vec())?;
    }
    Ok(())
}

/// Each operation reads its key and then writes it; the last write of a key counts.
fn block(store: &mut Nomt, operations: &[(Key, Value)]) -> Result<()> {
    let mut writes = Vec::with_capacity(operations.len());
    for (position, (key, value)) in operations.iter().enumerate() {
        store.read(key)?.context("a key that was filled in is missing")?;
        writes.push((*key, position, *value));
    }
    writes.sort_unstable_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
    writes.dedup_by_key(|(key, ..)| *key);
    store.commit(writes.into_iter().map(|(key, _, value)| (key, value)).collect())
}
