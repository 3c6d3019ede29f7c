//! `polytrie init`: a data directory with the genesis block and nothing else.

use super::{
    args::{ChainArg, DataArgs},
    exit::Failure,
};
use crate::datadir::DataDir;
use clap::Args;
use std::io::{self, Write};

/// Make a data directory with the genesis block only (import and devnet do it by themselves).
#[derive(Debug, Args)]
pub(super) struct InitArgs {
    #[command(flatten)]
    chain: ChainArg,
    #[command(flatten)]
    pub(super) data: DataArgs,
}

pub(super) fn run(args: InitArgs) -> Result<(), Failure> {
    let mut options = args.data.options();
    options.chain = args.chain.chain;
    let (chain, dir) = DataDir::open(&options, true)?.into_chain()?;
    let head = chain.head();
    let line = format!(
        "{} on {}: head {} {} state root {}",
        chain.spec().name(),
        dir.stamp.state,
        head.number(),
        head.hash(),
        head.header.state_root
    );
    writeln!(io::stdout(), "{line}").map_err(|e| Failure::output(&e))
}
