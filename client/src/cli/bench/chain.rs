//! `polytrie bench chain`.

use super::{Failure, measure::MeasureArgs, output::OutputArgs, workload::WorkloadArgs};
use crate::{bench::ChainBench, executor::Prefetch};
use clap::Args;
use polytrie_kv::StoreOptions;

/// Measure state layers under a workload: its blocks through executor and layer, senders known.
///
/// Every layer executes the same blocks from the same genesis. Canonical layers must come to the state root in every
/// header. Prints transactions a second, and where the time went.
#[derive(Debug, Args)]
pub(super) struct ChainArgs {
    /// Blocks at the start that are not measured [default: a tenth; of 3,000 or more, 1,000]
    #[arg(long, value_name = "B")]
    warmup: Option<u64>,
    /// Include recovering the senders, ahead of execution on other threads.
    #[arg(long)]
    recover: bool,
    /// Run blocks ahead of their turn to read what they will need, as the same option of `import` does: `auto`, `on`
    /// (or nothing after --prefetch), `off`.
    #[arg(long, value_name = "WHEN", default_value = "off", num_args = 0..=1, require_equals = true,
        default_missing_value = "on")]
    prefetch: Prefetch,
    /// Make blocks durable in groups of this many (or as soon as --kv.buffer bytes have gathered).
    #[arg(long, value_name = "N", default_value_t = StoreOptions::FLUSH_EVERY,
        value_parser = clap::value_parser!(u64).range(1..))]
    flush_every: u64,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &ChainArgs) -> Result<(), Failure> {
    let spec = args.workload.spec()?;
    let bench = ChainBench {
        warmup_blocks: args.warmup.unwrap_or_else(|| ChainBench::default_warmup(spec.blocks())),
        recover: args.recover,
        prefetch: args.prefetch,
        flush_every: args.flush_every,
    };
    args.measure.run(&args.output, |comparison| comparison.chain(&spec, bench))
}
