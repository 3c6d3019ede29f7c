//! `polytrie bench store`.

use super::{Failure, compare::CompareArgs};
use crate::bench::StoreBench;
use clap::Args;

/// Measure state layers alone: random reads and writes of slots, one durable commit a block.
///
/// One account has --keys slots with keys and values of 256 bits. Each of --blocks blocks reads --ops keys and writes each
/// right after reading it. Prints operations a second, and where the time went.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Slots before the first block.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Blocks that are measured.
    #[arg(long, value_name = "B", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    blocks: u64,
    /// Operations in a block, each a read and a write of one key.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Write new keys, instead of random ones of those that are there.
    #[arg(long)]
    fresh: bool,
    /// Blocks before those that are measured.
    #[arg(long, value_name = "B", default_value_t = 1)]
    warmup: u64,
    /// What keys and values follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    compare: CompareArgs,
}

pub(super) fn run(args: &StoreArgs) -> Result<(), Failure> {
    let bench = StoreBench {
        keys: args.keys,
        blocks: args.blocks,
        ops: args.ops,
        fresh: args.fresh,
        seed: args.seed,
        warmup_blocks: args.warmup,
    };
    args.compare.run(|comparison| comparison.store(bench))
}
