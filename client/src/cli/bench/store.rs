//! `polytrie bench store`.

use super::{Failure, measure::MeasureArgs, output::OutputArgs};
use crate::{
    bench::{Machine, Mode, StoreBench, TraceBench},
    cli::output::bytes,
};
use alloy_primitives::B256;
use clap::Args;
use std::path::{Path, PathBuf};

/// Upper bounds of the options, with which no product of them exceeds 64 bits; the machine's memory ends sooner.
const MOST_KEYS: u64 = 10_000_000_000;
const MOST_OPS: u64 = 100_000_000;
const MOST_BLOCKS: u64 = 1_000_000;

/// Bytes of memory for a slot while a store is filled: key and value, twice where they are sorted by hash.
const SLOT_BYTES: u64 = 128;
/// Bytes of memory for an operation until its block is committed: drawn, read, written, and hashed.
const OP_BYTES: u64 = 256;

/// The options of random operations, which a trace has no use for.
const OF_OPERATIONS: [&str; 6] = ["keys", "blocks", "ops", "fresh", "mode", "seed"];

/// Measure state layers alone: random reads and writes of slots, one durable commit a block.
///
/// One account has --keys slots with keys and values of 256 bits. Each of --blocks blocks reads --ops keys and writes each
/// right after reading it. Prints operations a second, and where the time went.
#[derive(Debug, Args)]
pub(super) struct StoreArgs {
    /// Slots before the first block.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=MOST_KEYS))]
    keys: u64,
    /// Blocks that are measured.
    #[arg(long, value_name = "B", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=MOST_BLOCKS))]
    blocks: u64,
    /// Operations in a block, each a read and a write of one key.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=MOST_OPS))]
    ops: u64,
    /// Write new keys, instead of random existing ones.
    #[arg(long)]
    fresh: bool,
    /// What an operation does.
    #[arg(long, value_name = "WHAT", default_value = "both")]
    mode: Mode,
    /// Blocks at the start that are not measured.
    #[arg(long, value_name = "B", default_value_t = StoreBench::DEFAULT_WARMUP,
        value_parser = clap::value_parser!(u64).range(..=MOST_BLOCKS))]
    warmup: u64,
    /// Seed of keys and values.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Replay a trace instead: a file of state writes, `kind,block,txindex,ordinal,address,key,old,new`, gzipped or not.
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_OPERATIONS)]
    trace: Option<PathBuf>,
    /// Blocks of the trace that become one.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "trace", conflicts_with_all = OF_OPERATIONS,
        value_parser = clap::value_parser!(u32).range(1..))]
    merge: u32,
    /// Replays of the trace; every second one goes backwards.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "trace", conflicts_with_all = OF_OPERATIONS,
        value_parser = clap::value_parser!(u64).range(1..=MOST_BLOCKS))]
    rounds: u64,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &StoreArgs) -> Result<(), Failure> {
    let inputs: Vec<&Path> = args.trace.iter().map(PathBuf::as_path).collect();
    args.output.expect_apart(&inputs)?;
    if let Some(file) = &args.trace {
        // The run happens in another process, to which a relative path could mean another file.
        let file = std::path::absolute(file).map_err(|error| {
            Failure::Machine(format!("cannot find {}: {error}; check the path", file.display()))
        })?;
        let bench = TraceBench {
            file,
            hash: B256::ZERO,
            merge: args.merge as usize,
            rounds: args.rounds,
            warmup_blocks: args.warmup,
        };
        return args.measure.run(&args.output, |comparison| comparison.trace(bench));
    }
    let Machine { memory_bytes, memory_limit_bytes, .. } = Machine::this();
    expect_memory(args.keys, args.ops, memory_limit_bytes.unwrap_or(u64::MAX).min(memory_bytes))?;
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

/// Refuses parameters that need more memory than this machine has: the system would kill the process without a
/// message. `memory` is 0 where the system does not report it.
fn expect_memory(keys: u64, ops: u64, memory: u64) -> Result<(), Failure> {
    for (option, wanted, each) in [("--keys", keys, SLOT_BYTES), ("--ops", ops, OP_BYTES)] {
        let needed = wanted.saturating_mul(each);
        if memory > 0 && needed > memory {
            return Err(Failure::Usage(format!(
                "{option} {wanted} takes about {} of memory, and there are {}; choose at most {}",
                bytes(needed),
                bytes(memory),
                memory / each
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_memory_has_no_room_for_is_refused() {
        let refused = |keys, ops, memory| expect_memory(keys, ops, memory).is_err();
        assert!(!refused(1_000_000, 100_000, 1 << 30));
        assert!(refused(10_000_000, 100_000, 1 << 30));
        assert!(refused(1, 10_000_000, 1 << 30));
        assert!(!refused(MOST_KEYS, MOST_OPS, 0));
        assert!(refused(u64::MAX, 1, 1 << 40));
    }

    #[test]
    fn the_bounds_leave_room_for_every_product() {
        let blocks = 2 * MOST_BLOCKS;
        assert!(blocks.checked_mul(MOST_OPS).and_then(|ops| ops.checked_add(MOST_KEYS)).is_some());
    }
}
