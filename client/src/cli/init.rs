//! `polytrie init`: makes a data directory with the genesis block only, with the state at some block, or with
//! a generated state.

use super::{
    args::{ChainArg, DataArgs},
    exit::Failure,
    input,
    output::{self, ResultArgs, Ticker},
    shape::Network,
    signals::on_interrupt,
};
use crate::{
    bench::mainnet::MainnetShape,
    blocks::read_headers,
    datadir::{DataDir, NewDir},
    layers::values::parse_bytes,
    state_dump::{self, Beginning, Begun, StateDumpError, Step},
    words::counted,
};
use alloy_primitives::{B256, U256};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;

/// Headers that are needed: the block's own, and those of the 256 blocks whose hashes `BLOCKHASH` may read.
const HEADERS: usize = 257;
/// Default seed of a generated state, as for `bench generate`.
const SEED: u64 = 1;

/// Make a data directory with the genesis block only (import and devnet do it by themselves), or with the state at any block,
/// or with a generated one.
///
/// With --state-dump the chain begins after the block of --header: the state is taken from a dump that some client wrote, its
/// root is computed and compared with the header's, and `polytrie import` goes on with the next block, under any layer.
/// Dumps are read in one pass, whatever the order of their accounts, in bounded memory (what does not fit is sorted on disk,
/// in the data directory). If that fails or is interrupted, nothing is left behind, and the same command begins anew.
///
/// With --shape the genesis block is that of a generated chain: of the genesis.json that `polytrie bench generate --shape` writes
/// with the same size and seed, which need not be there. The directory keeps that genesis without its accounts.
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    #[command(flatten)]
    chain: ChainArg,
    /// The state to begin with: what `geth dump` (with --iterative or without), `geth snapshot dump` or `polytrie db dump`
    /// writes, or the lines that reth's `init-state` takes; gzipped or not, `-` for standard input. Accounts and slots may
    /// stand under their hashes, as in `geth snapshot dump`. `geth dump` leaves out slots whose preimages geth does not have
    /// (--cache.preimages); such a dump is refused.
    #[arg(long, value_name = "FILE", requires = "header")]
    state_dump: Option<PathBuf>,
    /// The header of the block with that state: RLP (of the header or of the block, also as hex), or JSON as a node
    /// answers to eth_getBlockByNumber. The file may hold more headers or blocks, in their order: the last one counts, the
    /// 256 before it are for BLOCKHASH, and before the merge the last 7 blocks for ommers. From Prague on the state itself
    /// has the hashes.
    #[arg(long, value_name = "FILE", requires = "state_dump")]
    header: Option<PathBuf>,
    /// The total difficulty with that block, if it is from before the merge and the file of --header does not have it.
    #[arg(long, value_name = "N", requires = "state_dump")]
    total_difficulty: Option<U256>,
    /// Keep addresses and slots beside their hashes: `polytrie db dump` needs them for other clients' formats, and
    /// `polytrie db convert` for the layer `binary`, which keeps them by itself.
    #[arg(long, requires = "state_dump")]
    preimages: bool,
    /// Begin with a state in the proportions of this network: a fifth of its bytes are accounts, a tenth code, seven tenths
    /// slots, and few contracts have most of them. Memory does not depend on its size.
    #[arg(long, value_name = "NETWORK", requires = "size",
        conflicts_with_all = ["chain", "state_dump", "header", "total_difficulty", "preimages"])]
    shape: Option<Network>,
    /// Bytes of that state (k, M, G may follow): 104 an account, 64 a slot, and code.
    #[arg(long, value_name = "BYTES", requires = "shape", value_parser = parse_bytes)]
    size: Option<usize>,
    /// Seed of everything random in it [default: 1]
    #[arg(long, value_name = "N", requires = "shape")]
    seed: Option<u64>,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: DataArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    chain: String,
    state: String,
    number: u64,
    hash: B256,
    state_root: B256,
    commitment: B256,
    #[serde(skip_serializing_if = "Option::is_none")]
    accounts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_hashes: Option<u64>,
}

pub(super) fn run(args: InitArgs) -> Result<(), Failure> {
    let mut options = args.data.options();
    options.chain = args.chain.chain;
    let inputs = [args.state_dump.as_deref(), args.header.as_deref()].into_iter().flatten();
    input::expect_stdin_once(inputs.clone())?;
    args.result.expect_apart(inputs, options.chain.as_deref())?;
    output::expect_outside(&[("--json", args.result.file())], &options)?;
    let result = args.result.open()?;
    if let (Some(dump), Some(header_file)) = (args.state_dump, args.header) {
        let headers = read_headers(&header_file, HEADERS)?;
        let (total_difficulty, keep_preimages) = (args.total_difficulty, args.preimages);
        let beginning = Beginning { dump, headers, header_file, total_difficulty, keep_preimages };
        let interrupt = on_interrupt();
        let (dir, begun) = fill(NewDir::create(&options)?, |new, progress| {
            state_dump::begin(new.dir(), beginning, &interrupt, progress)
        })?;
        tell(&begun);
        let report = Report { block_hashes: Some(begun.hashes), ..Report::of(&dir, &begun)? };
        return result.write(&report, || {
            format!(
                "{}, {}, {} (the root was computed from them)",
                report.head(),
                counted(begun.accounts, "account"),
                counted(begun.slots, "slot")
            )
        });
    }
    if let (Some(Network::Mainnet), Some(size)) = (args.shape, args.size) {
        let shape = MainnetShape { bytes: size as u64, seed: args.seed.unwrap_or(SEED) };
        let plan = shape.genesis();
        let interrupt = on_interrupt();
        let (dir, begun) = fill(NewDir::create_planned(&options, &plan)?, |new, progress| {
            state_dump::begin_generated(new, &plan, shape.accounts(), &interrupt, progress)
        })?;
        let report = Report::of(&dir, &begun)?;
        return result.write(&report, || {
            let accounts = counted(begun.accounts, "account");
            format!("{}, {accounts}, {}", report.head(), counted(begun.slots, "slot"))
        });
    }
    let (chain, dir) = DataDir::open(&options, true)?.into_chain()?;
    let head = chain.head();
    let report = Report {
        chain: chain.spec().name().to_owned(),
        commitment: dir.layer.commitment().digest(),
        state: dir.stamp.state.clone(),
        number: head.number(),
        hash: head.hash(),
        state_root: head.header.state_root,
        accounts: None,
        slots: None,
        block_hashes: None,
    };
    result.write(&report, || report.head())
}

impl Report {
    /// The report on a directory that was filled.
    fn of(dir: &DataDir, begun: &Begun) -> Result<Self, Failure> {
        Ok(Self {
            chain: dir.spec()?.name().to_owned(),
            state: dir.stamp.state.clone(),
            number: begun.number,
            hash: begun.hash,
            state_root: begun.state_root,
            commitment: begun.commitment,
            accounts: Some(begun.accounts),
            slots: Some(begun.slots),
            block_hashes: None,
        })
    }

    fn head(&self) -> String {
        let Self { chain, state, number, hash, state_root, .. } = self;
        format!("{chain} on {state}: head {number} {hash} state root {state_root}")
    }
}

/// Fills the new directory and makes it valid. On failure or interrupt it removes what it made.
fn fill(
    mut new: NewDir,
    begin: impl FnOnce(&mut NewDir, &mut dyn FnMut(Step)) -> Result<Begun, StateDumpError>,
) -> Result<(DataDir, Begun), Failure> {
    let mut ticker = Ticker::new();
    let begun = begin(&mut new, &mut |step| {
        if ticker.is_due() {
            let Step { what, accounts, slots, percent } = step;
            let percent = percent.map(|percent| format!(" ({percent} %)")).unwrap_or_default();
            tracing::info!(accounts, slots, "{what}{percent}");
        }
    });
    match begun {
        Ok(begun) => Ok((new.seal()?, begun)),
        Err(error) => {
            if let Err(left) = new.discard() {
                tracing::warn!("{left}");
            }
            Err(error.into())
        }
    }
}

/// Warns of the block hashes and the total difficulty that are not known.
fn tell(begun: &Begun) {
    let Begun { number, hashes, hashes_wanted, .. } = *begun;
    if hashes < hashes_wanted {
        tracing::warn!(
            "BLOCKHASH may ask for the hashes of the {hashes_wanted} blocks before block {number}, and {hashes} are known: an import ends with a sentence at a block that asks for another one; a file for --header with the headers of these blocks prevents it"
        );
    }
    if !begun.knows_difficulty {
        tracing::warn!(
            "the total difficulty of block {number} is not known, and counts from it on; --total-difficulty gives it"
        );
    }
}
