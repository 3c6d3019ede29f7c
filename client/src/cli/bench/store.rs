//! `polytrie bench store`.

use super::{Failure, measure::MeasureArgs, output::OutputArgs};
use crate::bench::{Mode, StoreBench, TraceBench};
use alloy_primitives::B256;
use clap::Args;
use std::path::PathBuf;

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
    /// What an operation does: both reads and then writes.
    #[arg(long, value_name = "WHAT", default_value = "both")]
    mode: Mode,
    /// Blocks before those that are measured.
    #[arg(long, value_name = "B", default_value_t = StoreBench::DEFAULT_WARMUP)]
    warmup: u64,
    /// What keys and values follow from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Replay a trace instead: a file of state writes, `kind,block,txindex,ordinal,address,key,old,new`, gzipped or not.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["keys", "blocks", "ops", "fresh", "mode", "seed"])]
    trace: Option<PathBuf>,
    /// Blocks of the trace that become one.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    merge: u32,
    /// Replays of the trace; every second one goes backwards.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "trace", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &StoreArgs) -> Result<(), Failure> {
    if let Some(file) = &args.trace {
        // A relative path would mean something else to a process elsewhere.
        let file = std::path::absolute(file)
            .map_err(|e| Failure::Machine(format!("cannot find {}: {e}", file.display())))?;
        let bench = TraceBench {
            file,
            hash: B256::ZERO,
            merge: args.merge as usize,
            rounds: args.rounds,
            warmup_blocks: args.warmup,
        };
        return args.measure.run(&args.output, |comparison| comparison.trace(bench));
    }
    let bench = StoreBench {
        keys: args.keys,
        blocks: args.blocks,
        ops: args.ops,
        fresh: args.fresh,
        mode: args.mode,
        seed: args.seed,
        warmup_blocks: args.warmup,
    };
    args.measure.run(&args.output, |comparison| comparison.store(bench))
}
