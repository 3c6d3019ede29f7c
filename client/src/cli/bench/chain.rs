//! `polytrie bench chain`.

use super::{
    super::args::{SlowBlockArg, access_list_mode, access_list_threads, prefetch},
    Failure,
    measure::MeasureArgs,
    output::OutputArgs,
    workload::WorkloadArgs,
};
use crate::{
    access_lists::AccessListMode,
    bench::{ChainBench, Comparison, GivenChain, GivenPrestate, Subject},
    cli::input::{block_inputs, expect_no_stream},
    executor::Prefetch,
};
use clap::{ArgGroup, Args};
use polytrie_kv::StoreOptions;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// Measure state layers under a workload, or on blocks of your own, as an import runs them, senders known.
///
/// Every layer takes in the same blocks from the same genesis: all rules are checked, and blocks, receipts and undo records
/// are stored. Layers with state roots must compute that of every header. Prints transactions a second (blocks, if all are
/// empty), and where the time went.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("given").args(["files", "prestate"])))]
pub(super) struct ChainArgs {
    /// Block files to measure in place of a workload, as `import` takes them: from block 1 of --chain on (or block 0),
    /// without a gap. Their blocks are kept in memory.
    #[arg(value_name = "FILE", requires = "chain", conflicts_with = "WorkloadArgs")]
    files: Vec<PathBuf>,
    /// Real blocks to measure in place of a workload, on the state that they touch and other accounts, as many as make --accounts:
    /// a directory with a JSON file for each of some consecutive blocks, as `import --prestate` takes it.
    #[arg(long, value_name = "DIR", requires = "chain", conflicts_with_all = ["to", "workload", "txs", "block_txs",
        "popularity", "new_recipients", "senders", "seed"])]
    prestate: Option<PathBuf>,
    /// The chain of these blocks: mainnet, sepolia, holesky, hoodi, dev, or the path of a genesis.json as geth writes it.
    #[arg(long, value_name = "CHAIN", requires = "given")]
    chain: Option<String>,
    /// The last block of the files that is measured.
    #[arg(long, value_name = "N", requires = "files")]
    to: Option<u64>,
    /// Blocks at the start that are not measured [default: a tenth; of 3,000 or more, 1,000]
    #[arg(long, value_name = "B")]
    warmup: Option<u64>,
    /// Read the blocks from their file, decode them and recover their senders during the run, on other threads, as an import
    /// does.
    #[arg(long)]
    recover: bool,
    /// Run blocks ahead of their turn to read what they will need, as the same option of `import` does: `auto`, `on`
    /// (or nothing after --prefetch), `off`.
    #[arg(long, value_name = "WHEN", default_value = "off", num_args = 0..=1, require_equals = true,
        default_missing_value = "on", value_parser = prefetch())]
    prefetch: Prefetch,
    /// How to use the access lists of the blocks (EIP-7928), as with the same option of `import`. With several values each
    /// layer runs with each of them. The lists are made before the clock starts.
    #[arg(long, value_name = "HOW,…", default_value = "off", value_delimiter = ',', conflicts_with = "recover",
        value_parser = access_list_mode())]
    bal: Vec<AccessListMode>,
    /// Threads that run the transactions of a block with --bal parallel [default: the number of cores]
    #[arg(long, value_name = "N", requires = "bal", conflicts_with = "recover",
        value_parser = clap::value_parser!(u16).range(1..=1024))]
    bal_threads: Option<u16>,
    /// Make blocks durable in groups of this many (or as soon as --kv.buffer bytes have gathered). Under `mpt-hash`, and
    /// `replica` with `--replica.mode paper`, each block is written by itself [default: 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    flush_every: Option<u64>,
    /// Measure on the prepared stores themselves, not on copies: for states that fit on the disk once. After each run its
    /// blocks are taken back with their undo records, and the commitment is compared with that before them, as is what the
    /// accounts of the last blocks hold between layers and runs. A run that fails or is interrupted loses its store, which
    /// is filled anew the next time. An engine in memory is refused.
    #[arg(long, conflicts_with = "prestate")]
    in_place: bool,
    #[command(flatten)]
    slow_block: SlowBlockArg,
    #[command(flatten)]
    workload: WorkloadArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &ChainArgs) -> Result<(), Failure> {
    let genesis = args.chain.as_deref().map(Path::new);
    let files = block_inputs(&args.files, args.prestate.as_deref());
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).chain(genesis).collect();
    args.output.expect_apart(&inputs)?;
    let bench = |blocks| ChainBench {
        warmup_blocks: args.warmup.unwrap_or_else(|| ChainBench::default_warmup(blocks)),
        recover: args.recover,
        prefetch: args.prefetch,
        bal_threads: match args.bal.contains(&AccessListMode::Parallel) {
            true => access_list_threads(args.bal_threads),
            false => 1,
        },
        flush_every: args.flush_every.unwrap_or(StoreOptions::FLUSH_EVERY),
    };
    let modes: BTreeSet<_> = args.bal.iter().copied().collect();
    let suited = |comparison: &Comparison| {
        let with_lists = |subject: &Subject| {
            modes.iter().map(|bal| subject.with_lists(*bal)).collect::<Vec<_>>()
        };
        Comparison {
            subjects: comparison.subjects.iter().flat_map(with_lists).collect(),
            log_slow_blocks: args.slow_block.least(),
            in_place: args.in_place,
            ..comparison.clone()
        }
    };
    if args.flush_every.is_some() {
        args.measure.warn_of_groups()?;
    }
    let Some(chain) = &args.chain else {
        let spec = args.workload.spec()?;
        let bench = bench(spec.blocks());
        return args.measure.run(&args.output, |comparison| suited(comparison).chain(&spec, bench));
    };
    if let Some(dir) = &args.prestate {
        let given = GivenPrestate::open(dir, chain, args.workload.accounts())?;
        if !given.knows_parent() {
            tracing::warn!(
                "the header before the first block is not known, so the rules that compare its own with that are not checked"
            );
        }
        return args.measure.run(&args.output, |comparison| {
            suited(comparison).given_prestate(&given, bench(given.blocks()))
        });
    }
    expect_no_stream(&args.files)?;
    args.measure.run(&args.output, |comparison| {
        let given = GivenChain::open(&args.files, chain, args.to, &comparison.cache)?;
        suited(comparison).given_chain(&given, bench(given.blocks()))
    })
}
