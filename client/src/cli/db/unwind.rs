//! `polytrie db unwind`.

use crate::{
    cli::{
        args::{ChainArg, StoredArgs},
        exit::Failure,
        output::ResultArgs,
    },
    datadir::DataDir,
    import::HeadReport,
    words::counted,
};
use clap::Args;
use serde::Serialize;

/// Take blocks back: state and chain are afterwards as they were at an earlier block.
///
/// The blocks are gone then, and can be imported again. Undo records are kept for the last 1024 blocks.
#[derive(Debug, Args)]
pub(in crate::cli) struct UnwindArgs {
    #[command(flatten)]
    chain: ChainArg,
    /// The block that is the head afterwards.
    #[arg(long, value_name = "N")]
    to: u64,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    pub(super) data: StoredArgs,
}

/// The result; serialises to the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Unwound {
    blocks: u64,
    head: HeadReport,
}

pub(super) fn run(args: UnwindArgs) -> Result<(), Failure> {
    let mut options = args.data.options(false);
    options.chain = args.chain.chain;
    args.result.expect_apart([], options.chain.as_deref())?;
    let result = args.result.open()?;
    let (mut chain, _dir) = DataDir::open(&options, false)?.into_chain()?;
    let blocks = chain.unwind_to(args.to)?;
    chain.flush()?;
    let report = Unwound { blocks, head: HeadReport::of(&chain) };
    result.write(&report, || format!("took back {}: {}", counted(blocks, "block"), report.head))
}
