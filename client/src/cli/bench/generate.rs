//! `polytrie bench generate`.

use super::{
    Failure,
    workload::{CacheArg, WorkloadArgs},
};
use crate::{
    bench::{
        CHAIN_FILE, Cache, CacheError, Generated, WorkloadSpec, generate, generate_state,
        mainnet::{MainnetShape, Parts},
    },
    cli::{
        output::{self, ResultArgs},
        shape::Network,
        signals::on_interrupt,
    },
    datadir::GENESIS_FILE,
    layers::values::parse_bytes,
    words::counted,
};
use clap::Args;
use serde::Serialize;
use std::{path::PathBuf, sync::Arc};
use tempfile::TempDir;

/// The options of a workload that a state alone has no use for.
const OF_BLOCKS: [&str; 7] =
    ["workload", "accounts", "txs", "block_txs", "popularity", "new_recipients", "senders"];

/// Write a chain that this program, geth and reth import: DIR/genesis.json and DIR/chain.rlp.
///
/// The chain is past the merge from its first block. The same options always give the same bytes.
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// The directory to write to; made if it is not there.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Write a state alone, DIR/genesis.json, in the proportions of this network: a fifth of its bytes are accounts, a tenth code,
    /// seven tenths slots, and few contracts have most of them. Memory does not depend on its size; `polytrie init --shape`
    /// puts the same state into a data directory without the file.
    #[arg(long, value_name = "NETWORK", requires = "size", conflicts_with_all = OF_BLOCKS)]
    shape: Option<Network>,
    /// Bytes of that state (k, M, G may follow): 104 an account, 64 a slot, and code; the file has about twice as many.
    #[arg(long, value_name = "BYTES", requires = "shape", conflicts_with_all = OF_BLOCKS, value_parser = parse_bytes)]
    size: Option<usize>,
    #[command(flatten)]
    cache: CacheArg,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    workload: WorkloadArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    spec: &'a WorkloadSpec,
    #[serde(flatten)]
    generated: &'a Generated,
}

pub(super) fn run(args: &GenerateArgs) -> Result<(), Failure> {
    let interrupt = on_interrupt();
    let spec = args.workload.spec()?;
    let (genesis, chain) = (args.out.join(GENESIS_FILE), args.out.join(CHAIN_FILE));
    let outputs = [
        ("--out", Some(genesis.as_path())),
        ("--out", Some(chain.as_path())),
        ("--json", args.result.file()),
    ];
    output::expect_apart(&outputs, &[])?;
    output::create_dir(&args.out)?;
    // The file may lie in the directory that was just made.
    let result = args.result.open()?;
    if let (Some(Network::Mainnet), Some(size)) = (args.shape, args.size) {
        let shape = MainnetShape { bytes: size as u64, seed: spec.seed };
        let generated = generate_state(shape, &args.out, &interrupt)?;
        return result.write(&generated, || {
            let Parts { accounts, slots, contracts, code_bytes, largest } = generated.parts;
            format!(
                "{}, of them {} with {} of code and {}, {largest} in the largest",
                counted(accounts, "account"),
                counted(contracts, "contract"),
                counted(code_bytes, "byte"),
                counted(slots, "slot")
            )
        });
    }
    let at = |action| CacheError::at(action, &args.out);
    // Without --cache, the temporary cache is removed at the end.
    let temporary = match args.cache.named() {
        Some(_) => None,
        None => Some(TempDir::with_prefix_in(".cache-", &args.out).map_err(at("write to"))?),
    };
    let cache = match &temporary {
        Some(dir) => Cache::open(dir.path())?,
        None => args.cache.open()?,
    };
    let cache = cache.with_interrupt(Arc::clone(&interrupt));
    let generated = generate(&spec, &args.out, &Arc::new(cache), &interrupt)?;
    drop(temporary);
    let report = Report { spec: &spec, generated: &generated };
    result.write(&report, || {
        let head = &generated.chain.head;
        format!("head {} {} state root {}", head.number, head.hash, head.state_root)
    })
}
